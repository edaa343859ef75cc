"""Texts of arithmetic word problems, written for this recipe; `word_problems.py` fills them in.

{A}, {B}: names; {he}, {his}, {him}, {He} and {His} follow {A}. {x} to {w}: numbers, by the range beside the text
("x:2-9"); {thing}, {thing2}: plural things; {place}, {day}: as they say.
"""

TEMPLATES: tuple[tuple[str, str], ...] = (
    ("x:5-40 y:2-20", "{A} has {x} {thing}. {B} has {y} more {thing} than {A}. How many {thing} do they have altogether?"),
    ("x:20-90 y:3-15 z:2-9", "{A} had {x} {thing}. {He} gave {y} of them to {B} and lost {z} on the way home. How many {thing} does {A} have left?"),
    ("x:3-12 y:4-15 z:2-20", "{A} buys {x} boxes of {thing} with {y} {thing} in each box. {He} already had {z} {thing} at home. How many {thing} does {he} have now?"),
    ("x:2-9 y:3-25 z:50-100", "{A} bought {x} {thing} at ${y} each. {He} paid with a ${z} bill. If that is not enough, how much more does {he} need, and otherwise how much change does {he} get?"),
    ("x:8-30 y:2-8 z:2-5", "A {place} sells {x} {thing} every hour. It is open {y} hours a day, {z} days a week. How many {thing} does it sell in a week?"),
    ("x:30-70 y:2-6 z:1-3", "{A} drives at {x} miles per hour for {y} hours, then takes a break of {z} hours, and then drives back the same way at the same speed. How many hours does the whole trip take?"),
    ("x:10-40 y:2-6 z:5-30", "{A} reads {x} pages a day on weekdays and {y} times as many on each day of the weekend. The book has {z}00 pages. How many pages does {he} read in one week?"),
    ("x:12-25 y:20-40 z:3-12", "{A} earns ${x} an hour and works {y} hours a week. After {z} weeks, how much money has {he} earned?"),
    ("x:60-200 y:10-50", "A jacket costs ${x}. It is on sale for {y}% off. How much does {A} pay for the jacket?"),
    ("x:4-12 y:10-30 z:2-9", "There are {x} shelves in the {place}, each with {y} {thing}. {A} takes {z} {thing} from every shelf. How many {thing} remain in total?"),
    ("x:2-6 y:3-9 z:2-8", "{A} is {x} times as old as {B}. In {y} years, {B} will be {z}{z} years old. How old is {A} now?"),
    ("x:24-96 y:2-8", "{A} wants to share {x} {thing} equally among {y} friends. How many {thing} does each friend get, and how many are left over?"),
    ("x:3-9 y:5-20 z:2-10 w:4-15", "On {day}, {A} picked {x} baskets of {thing} with {y} in each. {B} picked {z} baskets with {w} in each. How many more {thing} did one of them pick than the other?"),
    ("x:100-500 y:10-60 z:5-50", "{A} saved ${x}. {He} spent ${y} on {thing} and ${z} on {thing2}. What is left is split equally between {A} and {B}. How much does each of them get?"),
    ("x:2-5 y:6-12 z:10-40", "A recipe needs {x} cups of flour for {y} cookies. {A} wants to bake {z} dozen cookies. How many cups of flour does {he} need?"),
    ("x:10-50 y:2-5", "The {place} had {x} visitors on {day}. The next day it had {y} times as many visitors, and the day after that half as many as on the second day. How many visitors came in all three days?"),
    ("x:5-20 y:5-20 z:2-6", "{A} runs {x} laps in the morning and {y} laps in the evening. Each lap is {z}00 meters long. How many kilometers does {he} run in a day?"),
    ("x:6-30 y:2-4 z:3-12", "{A} plants {x} rows of {thing}. Each row has {y}{z} plants. A third of the plants die in the winter. How many plants survive?"),
    ("x:15-60 y:2-10 z:1-9", "A tank holds {x}0 liters of water. Every minute {y} liters flow in and {z} liters flow out. How long does it take to fill the empty tank?"),
    ("x:3-8 y:20-60 z:10-30", "{A} and {x} friends go to the {place}. A ticket costs ${y} and everybody also spends ${z} on food. How much does the group spend altogether?"),
    ("x:40-100 y:10-35 z:2-9", "In a class of {x} students, {y} play football. Twice as many play basketball as chess, and {z} play chess. How many students do none of these, if nobody does two?"),
    ("x:2-7 y:12-48 z:20-90", "{A} collects {y} {thing} every month. {B} collects {x} times as many. After a year, {B} gives {z} {thing} to {A}. How many {thing} does {B} have then?"),
    ("x:120-480 y:20-80", "A train travels {x} miles at {y} miles per hour. How many minutes does the trip take?"),
    ("x:200-900 y:5-25 z:2-5", "{A} puts ${x} into a bank account that pays {y}% simple interest per year. How much money is in the account after {z} years?"),
    ("x:8-24 y:3-9 z:2-6", "{A} has {x} packs of {thing}. Every pack holds {y} {thing}. {He} sells them for ${z} each. How much money does {he} make if {he} sells all of them?"),
    ("x:6-18 y:4-12", "A rectangular garden is {x} meters long and {y} meters wide. {A} puts a fence around it that costs $7 per meter. How much does the fence cost?"),
    ("x:3-9 y:2-7 z:5-15", "{A} feeds {x} dogs and {y} cats. Each dog eats {z}0 grams of food a day and each cat eats half of that. How much food does {he} need for a week?"),
    ("x:10-40 y:20-60", "{A} scored {x} points in the first game, {y} points in the second game, and as many as in the first two together in the third game. What is {his} average score per game?"),
    ("x:50-150 y:15-45 z:10-30", "{A}'s phone plan costs ${x} a month. {He} gets a discount of {y}% for the first three months. How much does {he} pay in the first {z} months?"),
    ("x:2-9 y:2-9 z:10-99", "A farmer has {z} chickens. Every chicken lays {x} eggs in {y} days. How many eggs does the farmer get in {y}0 days?"),
    ("x:5-15 y:2-6 z:1-5", "{A} needs {x} minutes to wash a car. {B} needs {y} minutes longer. How many minutes do they need to wash {z} cars each, one after the other?"),
    ("x:20-80 y:2-5 z:5-20", "There are {x} red {thing} in a bag. There are {y} times as many blue ones, and {z} fewer green ones than blue ones. How many {thing} are in the bag?"),
    ("x:30-90 y:3-9 z:4-20", "{A} walks {x} minutes to the {place} every day. Today {he} stopped for {y} minutes at a bakery and for {z} minutes to talk to {B}. If {he} left at 8:00, when did {he} arrive?"),
    ("x:1-4 y:2-9 z:10-40", "{A} makes bracelets. One bracelet takes {y} beads and {x} strings. {He} has {z}0 beads and {z} strings. How many bracelets can {he} make?"),
    ("x:6-20 y:2-5 z:10-60", "Each of the {x} tables in the {place} seats {y} people, and there are {z} extra chairs along the wall. On {day} half of all seats are taken. How many people are sitting?"),
    ("x:4-15 y:12-36 z:1-9", "{A} ordered {x} cartons of {thing}, {y} per carton. When they came, {z} in every carton were broken. What fraction of the {thing} was broken?"),
    ("x:300-900 y:20-90 z:5-9", "A factory makes {x} {thing} a day. {y} of them fail the test. How many good {thing} does it make in {z} days?"),
    ("x:10-30 y:2-4 z:3-8", "{A} does {x} push-ups on the first day, and {y} more each day than on the day before. How many push-ups does {he} do on day {z}?"),
    ("x:2-8 y:15-45 z:5-10", "{A} spends {x} hours on homework. {B} spends {y} minutes less. {C} spends twice as long as {B}. How many minutes do the three of them spend together?"),
    ("x:12-60 y:2-6 z:2-6", "{A} cut a ribbon of {x} feet into pieces of {y} inches. {He} used {z} pieces. How many pieces are left?"),
    ("x:3-9 y:3-9", "What is {x}{y} + {y}{x} * 2? Show your steps."),
    ("x:11-99 y:11-99", "Calculate {x} times {y}."),
    ("x:2-9 y:5-60 z:2-9", "Solve for x: {x}x + {y} = {z}{y}"),
    ("x:100-999 y:2-12", "Divide {x} by {y} and give the remainder."),
    ("x:5-95 y:20-400", "What is {x}% of {y}?"),
    ("x:2-9 y:2-9 z:2-9", "The ratio of {thing} to {thing2} in the {place} is {x} to {y}. If there are {z}{x} {thing2}, how many {thing} are there?"),
    ("x:2-12 y:3-18", "The base of a triangle is {x} cm and its height is {y} cm. What is its area?"),
    ("x:15-85 y:3-9 z:2-5", "It costs ${x} to rent a bike for a day, plus ${y} for every hour after the first {z} hours. {A} rented one for {z}{z} hours. How much did it cost?"),
    ("x:2-6 y:20-50 z:10-19", "A bus starts with {y} passengers. At each of {x} stops {z} people get off and half as many get on. How many passengers are on the bus after the last stop?"),
    ("x:4-10 y:15-35 z:2-4", "{A} knits {x} scarves a month. Each scarf needs {z} balls of wool and is sold for ${y}. A ball of wool costs $3. What is {his} profit in a month?"),
)  # fmt: skip

NAMES = (
    "Liam:he Noah:he Ethan:he Mateo:he Ravi:he Kofi:he Jonas:he Pedro:he Hiro:he Samuel:he Omar:he Felix:he "
    "Marcus:he Dmitri:he Tariq:he Oscar:he Henrik:he Wei:he Diego:he Andre:he Bruno:he Callum:he Yusuf:he "
    "Olivia:she Amara:she Sofia:she Priya:she Mei:she Ingrid:she Zara:she Chloe:she Fatima:she Nadia:she "
    "Greta:she Hannah:she Isla:she Jasmine:she Keiko:she Lena:she Maya:she Nora:she Paula:she Rosa:she "
    "Sarah:she Tara:she Uma:she Vera:she Wendy:she Yara:she Emily:she Grace:she Alice:she Diana:she"
)
THINGS = (
    "apples oranges marbles stickers pencils books cookies muffins shells coins stamps balloons tomatoes eggs "
    "flowers candles buttons magnets postcards bottles peaches lemons carrots crayons cupcakes donuts beads "
    "toy-cars comic-books notebooks trading-cards paper-cranes strawberries tulips pumpkins sandwiches keychains "
    "light-bulbs batteries T-shirts socks hats mugs posters puzzles potatoes onions walnuts chocolates lollipops"
)
PLACES = (
    "library bakery museum zoo school grocery-store farm cinema restaurant park toy-store stadium "
    "hospital bookstore warehouse garden-center aquarium gym cafeteria theater swimming-pool market"
)
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"

ENDINGS = (
    "", "", "", "", " Show your work.", " Explain your reasoning step by step.", " Think step by step.",
    " Give the final answer as a number.", " Solve this problem.",
)  # fmt: skip

"""Everyday questions and tasks, written for this recipe; `general.py` fills them in."""

TOPICS = (
    "photosynthesis; gravity; the water cycle; how vaccines work; why the sky is blue; the French Revolution; inflation; "
    "compound interest; supply and demand; machine learning; neural networks; recursion; binary search; hash tables; "
    "the internet; how email works; encryption; blockchain; black holes; plate tectonics; volcanoes; earthquakes; tides; "
    "the solar system; the phases of the moon; eclipses; the greenhouse effect; renewable energy; solar panels; wind turbines; "
    "nuclear fission; electric cars; batteries; how airplanes fly; how bridges stand; the printing press; the Roman Empire; "
    "ancient Egypt; the Silk Road; the Industrial Revolution; the space race; democracy; the separation of powers; human rights; "
    "the stock market; insurance; budgeting; mortgages; taxes; the immune system; DNA; evolution; natural selection; "
    "the digestive system; the heart; sleep; dreams; memory; habits; stress; meditation; healthy eating; vitamins; dehydration; "
    "bees and pollination; coral reefs; rainforests; deserts; migration of birds; whales; dinosaurs; fossils; mushrooms; composting; "
    "gardening; baking bread; making cheese; coffee; tea; chocolate; chess; football; the Olympic Games; marathon running; swimming; "
    "yoga; playing the guitar; classical music; jazz; oil painting; photography; poetry; public speaking; negotiation; teamwork; "
    "time management; job interviews; writing a resume; remote work; project management; version control; unit testing; databases; "
    "operating systems; compilers; sorting algorithms; object-oriented programming; functional programming; regular expressions; "
    "probability; the Pythagorean theorem; prime numbers; fractions; percentages; averages; statistics; calculus; geometry; logic"
).split("; ")
ABOUT = (
    "Explain {topic} in simple terms.", "What is the most important thing to know about {topic}?",
    "Give me five interesting facts about {topic}.", "Write a short paragraph about {topic}.",
    "Explain {topic} to a ten-year-old child.", "What are common misconceptions about {topic}?",
    "Write a short poem about {topic}.", "Write a quiz with three questions and answers about {topic}.",
    "I have to give a talk about {topic}. Suggest an outline.", "How does {topic} affect our daily life?",
    "List the advantages and disadvantages of {topic}.", "Why is {topic} important?",
    "Tell me about the history of {topic}.", "What should a beginner learn first about {topic}?",
    "Write a tweet about {topic}.", "Give three tips on {topic}.", "What are the key terms in {topic}?",
    "Write a dialogue in which a teacher explains {topic} to a student.",
)  # fmt: skip
PAIRS = (
    "cats and dogs; tea and coffee; a list and a tuple in Python; weather and climate; a virus and a bacterium; mass and weight; "
    "a lake and a sea; TCP and UDP; HTTP and HTTPS; a stack and a queue; an alligator and a crocodile; jam and jelly; "
    "a simile and a metaphor; speed and velocity; a city and a town; debit and credit cards; a resume and a cover letter; "
    "renting and buying a home; a moth and a butterfly; a compiler and an interpreter; threads and processes; stars and planets; "
    "supervised and unsupervised learning; a republic and a democracy; SQL and NoSQL databases; aerobic and anaerobic exercise; "
    "a fruit and a vegetable; affect and effect; a mean and a median; RAM and a hard disk"
).split("; ")
COMPARE = (
    "What is the difference between {pair}?", "Compare {pair} in a short table.",
    "When should I choose which: {pair}?", "Name three things that {pair} have in common.",
)  # fmt: skip
SENTENCES = (
    "The meeting was moved to Thursday because two of the managers could not attend.",
    "Our team finished the project a week early, and the customer was very happy with it.",
    "He was late for work again since the train did not come and his phone was out of power.",
    "The new phone has a better camera, but the battery does not last as long as before.",
    "Many people think that the old theater should be saved, although repairing it would be expensive.",
    "I wanted to tell you that your order has been sent and will probably be there on Monday.",
    "The company lost money last year, mostly because fewer people bought printed newspapers.",
    "She learned to play the piano when she was six years old and never stopped since then.",
    "It rained all day, so the children stayed inside, built a castle of cushions and read stories.",
    "Scientists found that the birds return to the same island every spring, even after storms.",
    "Please do not forget to lock the door and to switch off the lights when you leave the office.",
    "The restaurant is small and noisy, yet the food is excellent and the waiters are friendly.",
    "Because the bridge is closed until June, all buses take a longer way through the old town.",
    "The committee has not decided yet whether the park will be open on public holidays.",
    "My grandmother baked a cake with apples from her garden and gave half of it to the neighbors.",
    "If you practice for twenty minutes every day, you will notice a difference within a month.",
)
REWRITE = (
    'Rewrite this sentence in a more formal style: "{sentence}"', 'Make this sentence shorter: "{sentence}"',
    'Translate into French: "{sentence}"', 'Find the verbs in this sentence: "{sentence}"',
    'Rewrite this in the future tense: "{sentence}"', 'Write a short story that begins like this: "{sentence}"',
    'What questions could one ask about this statement? "{sentence}"', 'Rewrite this as a friendly email: "{sentence}"',
    'Is the tone of this sentence positive, negative or neutral, and why? "{sentence}"',
)  # fmt: skip
TASKS = (
    "Write an email to my {person} in which I {reason}.", "Plan a {length} trip to {city} for a family with {n} children.",
    "Suggest {n} names for a {business}, each with a slogan.", "Write a short story about a {person} who {event}.",
    "Give me a recipe for {dish} for {n} people.", "Write a product description for a {product}.",
    "Make a to-do list for somebody who wants to open a {business}.", "My {person} {event}. What should I say?",
    "What are {n} things to do in {city}?", "Create a weekly schedule for learning {skill}.",
    "How do I clean a {product}?", "Write a review of a {business} in {city}.", "I want to learn {skill}. Where do I start?",
    "List {n} healthy alternatives to {dish}.", "Write a letter of complaint about a broken {product}.",
)  # fmt: skip
WORDS = {
    "person": "boss; neighbor; best friend; teacher; landlord; colleague; doctor; grandmother; customer; coach",
    "reason": "ask for a day off; apologize for being late; explain that I moved; invite them to a party; ask for help with a project; cancel an appointment",
    "length": "weekend; three-day; week-long; one-day; two-week",
    "city": "Paris; Tokyo; Rome; New York; Cairo; Lisbon; Berlin; Sydney; Toronto; Mumbai; Istanbul; Seoul",
    "business": "bakery; coffee shop; bookstore; bike repair shop; pet hotel; flower shop; gym; language school; food truck; game studio",
    "event": "found an old map; lost their keys; won a prize; moved to another country; failed an exam; got a new job; adopted a dog; discovered a hidden door; forgot a birthday",
    "dish": "pancakes; lentil soup; vegetable curry; pizza; apple pie; fried rice; potato salad; chocolate cake; tacos; lasagna",
    "product": "coffee machine; backpack; bicycle; keyboard; water bottle; desk lamp; vacuum cleaner; tent; pair of headphones; smartwatch",
    "skill": "Spanish; drawing; Python; chess; cooking; the violin; touch typing; photography; swimming; sign language",
    "n": "two; three; four; five; six",
}

"""Texts that are none of a random generator: languages, code, formulas, data and lists."""

from __future__ import annotations

import json
import string

GERMAN = """Der Vertrag zwischen Zielmodell und Entwurfsmodell ist eine Vereinbarung darüber, welche
Schichten abgegriffen werden und in welcher Reihenfolge ihre Ausgaben aneinandergehängt werden.
Wenn eine Laufzeitumgebung diese Vereinbarung anders liest als das Training, so bleibt der
erzeugte Text trotzdem richtig, weil das Zielmodell jedes einzelne Wort prüft. Nur die
Geschwindigkeit leidet darunter, und das fällt im Betrieb kaum auf. Deshalb lohnt es sich, die
mittlere Zahl angenommener Wörter je Runde zu messen und mit einem Lauf zu vergleichen, der
nachweislich richtig verdrahtet ist. Dabei sollten dieselben Aufgaben, dieselbe Vorlage und
dieselbe Temperatur verwendet werden, sonst vergleicht man zwei verschiedene Dinge miteinander
und hält den Unterschied für eine Eigenschaft der Umgebung. Außerdem braucht man mehrere
Neustarts, denn schon kleine Abweichungen der Rechenreihenfolge ändern knappe Entscheidungen
und damit den weiteren Verlauf des Textes."""
CHINESE = """推测解码使用一个小模型先写出若干个候选词，然后由大模型一次性验证这些候选词。如果候选词与大模
型的选择一致，就可以一次接受多个词，从而加快生成速度。因为每个词都经过大模型验证，所以即使小
模型接错了层，输出的文字仍然是正确的，唯一的症状是平均接受长度变短。很多人没有注意到这个数字
，于是问题在生产环境中存在了很长时间。为了找出原因，应当先检查小模型训练时使用的层号、位置编
码、窗口大小以及词表，再检查推理引擎实际采用的设置。两者不一致时，应当以训练时的约定为准。测
量时要使用真实的提示词，而不是随机生成的词，否则得到的结果没有意义。"""
RUSSIAN = """Черновая модель предлагает несколько слов подряд, а большая модель проверяет их за один проход.
Если слова совпадают с её собственным выбором, они принимаются, и генерация идёт быстрее.
Поскольку каждое слово проверено, текст остаётся верным даже тогда, когда черновая модель
подключена неправильно. Единственный признак ошибки состоит в том, что средняя длина принятого
отрезка становится меньше, но это число почти никто не читает. Чтобы найти причину, нужно
сравнить соглашения, принятые при обучении, с тем, как их понимает движок. Сначала проверяют
номера слоёв, затем положение токенов, окно внимания и таблицу слов. Измерять следует на
настоящих запросах, потому что на случайных словах большая модель пишет бессмыслицу, и
результат ничего не говорит."""
FINNISH = """Luonnosmalli ehdottaa useita sanoja peräkkäin, ja suuri malli tarkistaa ne yhdellä kertaa. Jos
sanat vastaavat suuren mallin omaa valintaa, ne hyväksytään ja tuottaminen nopeutuu. Koska
jokainen sana tarkistetaan, teksti pysyy oikeana silloinkin, kun luonnosmalli on kytketty
väärin. Ainoa oire on se, että hyväksyttyjen sanojen määrä kierrosta kohti pienenee, mutta sitä
lukua ei juuri kukaan katso. Syyn löytämiseksi verrataan koulutuksessa käytettyjä sopimuksia
siihen, miten ajoympäristö ne lukee. Ensin tarkistetaan kerrosten numerot, sitten paikat,
ikkunan koko ja sanasto. Mittaukseen käytetään oikeita kysymyksiä, koska satunnaisten sanojen
jälkeen suuri malli kirjoittaa mitä sattuu, eikä tuloksesta voi päätellä mitään. Lisäksi
tarvitaan useita käynnistyksiä."""
CAMEL_CASE = """function buildRequestHandler(routeTable, sessionStore) {
  const parsedHeaders = routeTable.parseHeaders(sessionStore.currentRequest);
  if (parsedHeaders.contentType === 'application/json') { return jsonDecoder.decodeStream(parsedHeaders); }
  for (let routeIndex = 0; routeIndex < routeTable.routeCount; routeIndex++) {
    const matchedRoute = routeTable.lookupRoute(routeIndex, parsedHeaders.requestPath);
    if (matchedRoute) { sessionStore.activeRoute = matchedRoute; return matchedRoute.invokeHandler(); }
  }
  throw new NotFoundError(`${parsedHeaders.requestPath} has no handler`);
}
"""
MATHS = r"""Let $f\colon \mathbb{R}^n \to \mathbb{R}$ be convex and differentiable with $L$-Lipschitz
gradient. Show that $f(y) \le f(x) + \nabla f(x)^\top (y-x) + \frac{L}{2}\lVert y-x \rVert^2$
for all $x,y$. \begin{align}
\int_0^1 \frac{\sin(\pi t)}{t+1}\,dt &= \sum_{k=0}^{\infty} \frac{(-1)^k \pi^{2k+1}}{(2k+1)!} c_k \\
c_k &= \int_0^1 \frac{t^{2k+1}}{1+t}\,dt, \qquad \alpha\beta\gamma + \delta_{ij}\epsilon^{ijk} = 0
\end{align} Hence $a*b*c + a*b*d + a*c*d + b*c*d = 0$ and $x^2 - 3x + 2 = (x-1)(x-2)$. """
LANGUAGES = "\n".join(
    f"{name}: {text}"
    for name, text in (
        ("English", "good morning, where is the station"),
        ("Russian", "доброе утро, где находится вокзал"),
        ("Arabic", "صباح الخير أين المحطة"),
        ("Hebrew", "בוקר טוב איפה התחנה"),
        ("Greek", "καλημέρα πού είναι ο σταθμός"),
        ("Korean", "좋은 아침입니다 역이 어디에 있습니까"),
        ("Japanese", "おはようございます駅はどこですか"),
        ("Thai", "สวัสดีตอนเช้าสถานีอยู่ที่ไหน"),
        ("Hindi", "सुप्रभात स्टेशन कहाँ है"),
    )
)
NAMES = "Sort: " + ", ".join(a + b for a in ("Ann", "Bo", "Cy", "De", "Ed") for b in string.ascii_lowercase)
TABLE = json.dumps([{"id": i, "userName": f"user{i}", "createdAt": f"2026-01-{i:02}"} for i in range(40)])

NATURAL = {
    "german": GERMAN,
    "chinese": CHINESE,
    "russian": RUSSIAN,
    "finnish": FINNISH,
    "camel": CAMEL_CASE * 3,
    "maths": MATHS * 2,
    "languages": LANGUAGES,
    "names": NAMES,
    "json": TABLE,
    "short": "hi",
    "empty": "",
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w\n" * 40,
    "ids-of-few": "[1, 2, 3]",
}

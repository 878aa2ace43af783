"""Long dialogues without tools, with planted facts: people, dates, places, languages, agreements, later corrections.

dialogue(seed) returns turns as (role, speaker, date, text), and facts as (kind, wanted, outdated): words that must stand
together in one statement, and words that a later statement replaced.
"""
import random

NAMES = "Ottilie Bamidele Ruaridh Xiomara Tomasz Noor Ximena Håkon Yevgenia Kwabena Leilani Dorothea Ignatius Parveen".split()
PLACES = """Tórshavn|Kutaisi|Antsirabe|Gjirokastër|Punta Arenas|Whanganui|Tromsø|Valparaíso|Kanazawa|Bergamo|Oulu|Nizwa|
Chefchaouen|Lunenburg|Ipoh|Piran|Cork|Arequipa|Luang Prabang|Görlitz|Mytilene|Stone Town""".replace("\n", "").split("|")
ANIMALS = "lurcher|axolotl|tortoise|cockatiel|goat|maine coon|ferret|barn owl".split("|")
PETS = "Pickles|Bramble|Zorro|Mistral|Duchess|Tofu|Rasputin|Olive|Comet|Juniper".split("|")
CRAFTS = "bookbinding|beekeeping|bouldering|glass blowing|calligraphy|fencing|cheese making|stargazing|weaving|rowing".split("|")
DISHES = "shakshuka|pierogi|laksa|jollof rice|ceviche|borscht|mole|ramen|paella|injera|khachapuri|gumbo".split("|")
MONTHS = "January February March April May June July August September October November December".split()
THINGS = "kayak|sewing machine|accordion|telescope|cargo bike|kiln|piano|record player|tent|darkroom enlarger".split("|")
JOBS = "paediatric nurse|locksmith|cartographer|sommelier|tram driver|translator|stonemason|actuary|luthier".split("|")
FILMS = "Solaris|Amélie|Stalker|Roma|Ran|Moonlight|Playtime|Paterson|Tampopo|Columbus".split("|")

# Small talk is drawn word by word, lest it recurs: it has names, places and numbers too.
SMALL_TALK = """
{open} {name2} {did} the {adjective} {noun} {when}.|{open} I keep thinking about the {noun} and the {adjective} {noun2}.|
My {kin} says that {craft} is {adjective}, and the {noun} {did2} it.|{open} it was so {adjective} in the {noun} that we {did} nothing.|
Have you seen {film}? The {noun} in it is {adjective}.|I tried making {dish} {when} and the {noun} was {adjective}.|
{open} how was your {noun}, still as {adjective} as {when}?|Do you still do {craft} with your {kin}?|
The {noun} here has been {adjective} for {few} weeks.|{name2} and my {kin} {did} a {noun}, can you imagine?|
People in {place} have such {adjective} {noun2}s, my {kin} loves it.|{open} that sounds {adjective}, I am happy for you.|
I read {few} pages about {craft} and fell asleep over the {noun}.|{open} your {kin} and the {noun}, that made me laugh.|
Sorry for the late reply, the {noun} was {adjective} and then {name2} came.|We had {dish} at the {noun} {when}, {adjective} as ever.|
{open} I am proud of you for the {noun}.|Some days are just {adjective}, with or without {dish}.|Tell me more about the {adjective} {noun}!
""".replace("\n", "").split("|")
OPENINGS = "Honestly,|You know,|Wow,|By the way,|Oh dear,|Well,|Ha,|So|And|Yes,|Hmm,|Believe it or not,|As always,|Funny,".split("|")
ADJECTIVES = """dreadful lovely soggy brilliant awkward noisy peaceful crooked shiny dusty generous hectic salty gloomy hilarious tender
stubborn crowded elegant rusty cosy bitter spotless clumsy fragrant chilly endless tidy magical sleepy fierce delicate""".split()
NOUNS = """garden bus hallway kitchen podcast meeting weekend river choir market staircase balcony radio bakery novel curtain lamp
puzzle harbour museum orchard jacket blanket recipe neighbour lecture bridge carpet ladder mirror tunnel kettle scarf fountain
parade diary chimney swing cellar pillow basket trumpet postcard gallery meadow pond fence saddle violin quilt""".split()
KIN = "brother aunt uncle cousin flatmate boss dentist landlord nephew niece godmother coach colleague".split()
VERBS = "painted missed fixed borrowed ruined described recorded sketched cleaned praised carried measured polished forgot".split()
WHENS = "last night|on Sunday|this morning|before lunch|all week|the other day|after work|twice|in the rain|at dawn".split("|")

# The words in [[…]] must be there together; {…} is drawn, and the same in a statement and in its correction.
FACTS = {
    "event": [
        "We got the keys for the flat in [[{place}]] on [[{day} {month}]], finally.",
        "Mum's operation in [[{place}]] is set for [[{day} {month}]].",
        "[[{name2}]] and I got engaged in [[{place}]], just the two of us on the pier.",
        "I am flying to [[{place}]] on [[{day} {month}]] for the wedding of [[{name2}]].",
        "The exhibition with my {craft} pieces opens in [[{place}]] on [[{day} {month}]].",
        "I quit my job as a [[{job}]], the last day was [[{day} {month}]].",
    ],
    "thing": [
        "I adopted a [[{animal}]] from the shelter and called it [[{pet}]].",
        "My sister [[{name2}]] works as a [[{job}]] in [[{place}]] now.",
        "I bought a used [[{thing}]] from a man in [[{place}]] for [[{price}]] euros.",
        "[[{name2}]] cannot eat [[{dish}]], it is the shellfish.",
        "Grandpa left me his [[{thing}]], and he had it from [[{place}]].",
        "The spare key is with [[{name2}]], third floor, door code [[{code}]].",
        "I signed up for a course in [[{craft}]] with [[{name2}]], [[{price}]] a term.",
    ],
    "language": [
        "Ich ziehe am [[{day}. {german}]] nach [[{place}]] um.",
        "Mi abuela [[{name2}]] nació en [[{place}]] y nunca lo dijo.",
        "On se retrouve à [[{place}]], au café près de la gare, code [[{code}]].",
        "我妹妹下个月去[[{chinese}]]学[[{chinese_craft}]]。",
        "来週の火曜日、[[{japanese}]]で[[{japanese_thing}]]を習います。",
        "O aniversário da [[{name2}]] é em [[{place}]], levo a [[{thing}]].",
        "Моя тётя [[{name2}]] купила дом в городе [[{place}]].",
    ],
}
# An earlier statement and the one that replaces it; the words in ((…)) are outdated then.
CHANGES = [
    ("The ferry to {place} leaves at (({time1})) on Saturdays.", "They changed it, the ferry to [[{place}]] leaves at [[{time2}]] on Saturdays now."),
    ("Dinner with {name2} is at (({place})) on the {day}th.", "Change of plan, dinner with [[{name2}]] is at [[{place2}]] on the {day}th."),
    ("My new number for the {thing} workshop is (({code})).", "I mixed that up, the number for the [[{thing}]] workshop is [[{code2}]]."),
    ("We put {price} aside for the {thing}, that is (({price1} euros)) in all.", "Recounted: what we put aside for the [[{thing}]] is [[{price2} euros]] in all."),
    ("{name2} expects the baby on (({day} {month})).", "The doctor says [[{name2}]] expects the baby on [[{day2} {month2}]], not earlier."),
]
# A proposal, and the agreement of another person in the next turn.
AGREED = [
    ("How about we take [[{name2}]] to [[{place}]] for the long weekend?", "Yes, let's do that."),
    ("Shall we give [[{name2}]] the [[{thing}]] as a present?", "Good idea, agreed."),
    ("Would you be fine with naming the band after [[{pet}]], as in [[{place}]]?", "Sure, go for it!"),
]


def drawn(rng):
    pick = lambda some: rng.choice(some)
    return {
        "name2": pick(NAMES), "place": pick(PLACES), "place2": pick(PLACES), "animal": pick(ANIMALS), "pet": pick(PETS),
        "craft": pick(CRAFTS), "dish": pick(DISHES), "thing": pick(THINGS), "job": pick(JOBS), "film": pick(FILMS),
        "day": rng.randrange(11, 29), "day2": rng.randrange(2, 10), "month": pick(MONTHS[:6]), "month2": pick(MONTHS[6:]),
        "price": rng.randrange(40, 990), "price1": rng.randrange(1000, 4990), "price2": rng.randrange(5000, 9990),
        "code": rng.randrange(1000, 9999), "code2": rng.randrange(1000, 9999), "german": pick(["März", "Mai", "Oktober"]),
        "time1": f"{rng.randrange(6, 12):02}:{rng.randrange(10, 59)}", "time2": f"{rng.randrange(13, 22)}:{rng.randrange(10, 59)}",
        "open": pick(OPENINGS), "adjective": pick(ADJECTIVES), "noun": pick(NOUNS), "noun2": pick(NOUNS), "kin": pick(KIN),
        "did": pick(VERBS), "did2": pick(VERBS), "when": pick(WHENS), "few": rng.randrange(2, 40),
        "chinese": pick(["成都", "厦门", "昆明"]), "chinese_craft": pick(["茶艺", "书法", "木工"]),
        "japanese": pick(["金沢", "長崎", "函館"]), "japanese_thing": pick(["陶芸", "三味線", "染物"]),
    }  # fmt: skip


def filled(template, values):
    """A text and the words that it marks as wanted and as outdated."""
    text, marked = template.format(**values), {}
    for opens, closes in (("[[", "]]"), ("((", "))")):
        marked[opens] = [part.split(closes)[0] for part in text.split(opens)[1:]]
        text = text.replace(opens, "").replace(closes, "")
    return text, marked["[["], marked["(("]


def dialogue(seed, length=420, facts=90):
    rng = random.Random(seed)
    people = rng.sample(NAMES, rng.choice([2, 2, 3, 4]))
    talk = lambda most: " ".join(rng.choice(SMALL_TALK).format(**drawn(rng)) for _ in range(rng.randrange(1, most)))
    said = {}  # turn → text beside the small talk
    found = []
    free = list(range(2, length - 3))
    rng.shuffle(free)
    for number in range(facts):
        kind = rng.choice(["event", "event", "thing", "thing", "language", "changed", "agreed"])
        values = drawn(rng)
        if kind == "changed":
            first, second = sorted((free.pop(), free.pop()))
            template = rng.choice(CHANGES)
            said[first], _, outdated = filled(template[0], values)
            said[second], wanted, _ = filled(template[1], values)
        elif kind == "agreed":
            at = next(at for at in free if at + 1 in free)
            free.remove(at), free.remove(at + 1)
            template = rng.choice(AGREED)
            said[at], wanted, outdated = filled(template[0], values)
            said[at + 1] = template[1]
        else:
            said[free.pop()], wanted, outdated = filled(rng.choice(FACTS[kind]), values)
        found.append((kind, wanted, outdated))
    turns, day = [], 1
    for at in range(length):
        day += rng.random() < 0.05
        speaker = people[at % len(people)] if rng.random() < 0.9 else rng.choice(people)
        text = said.get(at)
        if text is None or rng.random() < 0.5:
            parts = [talk(4)] + ([text] if text else []) + ([talk(3)] if rng.random() < 0.4 else [])
            rng.shuffle(parts)
            text = " ".join(parts)
        turns.append(("user" if speaker == people[0] else "assistant", speaker, f"{1 + day % 28} {MONTHS[(3 + day // 28) % 12]} 2031", text))
    return turns, found

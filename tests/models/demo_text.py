"""The demo model's training text: short tasks whose continuation can be checked.

A document is one line, prompt + answer, and then the end-of-text token.  draw(rng, task) returns (prompt, answer); the
answer follows from the prompt alone.  is_held_out() selects the prompts that are held out of training, by the prompt
only: training skips them, tests and perplexity use only them.
"""

import zlib

NAMES = ("Mia Tom Ada Ben Eva Max Lily Sam Zoë Leo Nina Omar Ivy Hugo Rosa José Kai Uma Finn Elsa").split()
THINGS = {"ball": "round", "kite": "light", "drum": "loud", "lamp": "bright", "book": "heavy", "cup": "empty",
          "hat": "soft", "boat": "small", "bell": "loud", "coin": "shiny", "map": "old", "ring": "shiny",
          "box": "heavy", "key": "old", "pen": "new", "scarf": "soft", "clock": "slow", "flute": "light",
          "basket": "empty", "mirror": "bright"}
COLOURS = "red blue green yellow black white pink brown orange purple".split()
PLACES = "garden kitchen school forest market library park harbour station village".split()
ANIMALS = {"cat": "crept", "dog": "ran", "fox": "ran", "owl": "flew", "hen": "walked", "goat": "jumped",
           "mouse": "crept", "horse": "galloped", "rabbit": "jumped", "bear": "walked", "duck": "swam",
           "crow": "flew"}
WORDS = ("apple river stone cloud bread tiger window candle pepper silver mountain summer winter orange lemon butter "
         "flower island rocket pencil carpet engine doctor farmer sailor dragon castle bridge ladder hammer needle "
         "pillow button ribbon velvet copper marble thunder shadow meadow").split()
FRUIT = "apple pear fig plum grape melon peach lime".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FACTS = [(f"The capital of {land} is", f" {city}.") for land, city in (
    ("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Germany", "Berlin"), ("Poland", "Warsaw"),
    ("Norway", "Oslo"), ("Sweden", "Stockholm"), ("Finland", "Helsinki"), ("Iceland", "Reykjavík"),
    ("Colombia", "Bogotá"), ("Brazil", "Brasília"), ("Japan", "Tokyo"), ("China", "Beijing"), ("Egypt", "Cairo"),
    ("Kenya", "Nairobi"), ("Canada", "Ottawa"))]
FACTS += [(f"The day after {a} is", f" {b}.") for a, b in zip(
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Monday"))]
FACTS += [(f"The opposite of {a} is", f" {b}.") for a, b in (
    ("hot", "cold"), ("big", "small"), ("day", "night"), ("up", "down"), ("fast", "slow"), ("old", "new"),
    ("open", "closed"), ("full", "empty"), ("wet", "dry"), ("early", "late"))]


def is_held_out(prompt):
    """About one prompt in 64, except for the shortest sums, which are too few."""
    return len(prompt) > 5 and zlib.crc32(prompt.encode("utf-8")) % 64 == 0


def article(word):
    return "an" if word[0] in "aeiou" else "a"


def number(rng):
    return rng.randrange(10 ** rng.choices((1, 2, 3), (1, 4, 8))[0])


def add(rng):
    a, b = number(rng), number(rng)
    return f"{a}+{b}=", f"{a + b}"


def subtract(rng):
    a, b = sorted((number(rng), number(rng)), reverse=True)
    return f"{a}-{b}=", f"{a - b}"


def sort_letters(rng):
    items = rng.sample(LETTERS, rng.randint(3, 7))
    return "Sort: " + " ".join(items) + " ->", " " + " ".join(sorted(items))


def sort_numbers(rng):
    items = rng.sample(range(10, 100), rng.randint(3, 5))
    return "Sort: " + " ".join(map(str, items)) + " ->", " " + " ".join(map(str, sorted(items)))


def reverse(rng):
    items = rng.choices(LETTERS, k=rng.randint(3, 8))
    return "Reverse: " + " ".join(items) + " ->", " " + " ".join(reversed(items))


def copy(rng):
    items = rng.choices(WORDS, k=rng.randint(3, 8))
    return "Copy: " + " ".join(items) + " ->", " " + " ".join(items)


def count(rng):
    kinds = rng.sample(FRUIT, 3)
    items = rng.choices(kinds, k=rng.randint(3, 9))
    return f"Count {kinds[0]}: " + " ".join(items) + " ->", f" {items.count(kinds[0])}"


def following(rng):
    if rng.random() < 0.3:
        start = rng.randrange(26 - 6)
        items = LETTERS[start:start + 6]
    else:
        first, step = rng.randrange(500), rng.randint(1, 12)
        items = [str(first + i * step) for i in range(6)]
    return "Next: " + " ".join(items[:3]) + " ->", " " + " ".join(items[3:])


def question(rng):
    """People with coloured things in places; things change hands; one question."""
    people = rng.sample(NAMES, rng.randint(2, 3))
    things = rng.sample(list(THINGS), len(people))
    colours = rng.sample(COLOURS, len(people))
    places = rng.sample(PLACES, len(people))
    owner = dict(zip(things, people))
    known, story = {}, []
    for person, thing, colour, place in zip(people, things, colours, places):
        if rng.random() < 0.7:
            known[person] = place
            story.append(f"{person} is in the {place}.")
        story.append(f"{person} has {article(colour)} {colour} {thing}.")
    for _ in range(rng.choices((0, 1, 2), (3, 2, 1))[0]):
        thing = rng.choice(things)
        giver = owner[thing]
        taker = rng.choice([person for person in people if person != giver])
        story.append(f"{giver} gives the {thing} to {taker}.")
        owner[thing] = taker
    kind = rng.choice(["who", "colour", "everything", "where"][:4 if known else 3])
    i = rng.randrange(len(people))
    if kind == "who":
        asked, answer = f"Who has the {things[i]}?", f"The {things[i]} belongs to {owner[things[i]]}."
    elif kind == "colour":
        asked, answer = f"What colour is the {things[i]}?", f"The {things[i]} is {colours[i]}."
    elif kind == "where":
        person = rng.choice(sorted(known))
        asked, answer = f"Where is {person}?", f"{person} is in the {known[person]}."
    else:
        asked = "Who has what?"
        answer = " ".join(f"The {thing} belongs to {owner[thing]}." for thing in things)
    return " ".join(story) + f" {asked}", f" {answer}"


def tale(rng):
    name, animal, colour = rng.choice(NAMES), rng.choice(list(ANIMALS)), rng.choice(COLOURS)
    thing, place = rng.choice(list(THINGS)), rng.choice(PLACES)
    a = article(colour)
    prompt = f"Tell a story: {name} the {animal}, {a} {colour} {thing}, the {place}."
    return prompt, (f" One day {name} the {animal} went to the {place}. There {name} found {a} {colour} {thing}. The "
                    f"{thing} was {THINGS[thing]}. \"Whose {colour} {thing} is this?\" asked {name}. Nobody in the "
                    f"{place} knew, so {name} {ANIMALS[animal]} home with the {thing}. From that day on, everyone "
                    f"called {name} the {animal} with the {colour} {thing}.")


def fact(rng):
    return rng.choice(FACTS)


# task -> (generator, share of the training documents)
TASKS = {"add": (add, 0.18), "subtract": (subtract, 0.09), "sort_letters": (sort_letters, 0.06),
         "sort_numbers": (sort_numbers, 0.07), "reverse": (reverse, 0.07), "copy": (copy, 0.04),
         "count": (count, 0.06), "following": (following, 0.08), "question": (question, 0.30), "tale": (tale, 0.03),
         "fact": (fact, 0.02)}


def draw(rng, task):
    return TASKS[task][0](rng)


def training_document(rng):
    """A (prompt, answer) that is not held out. Facts cannot be inferred and are never held out."""
    names = list(TASKS)
    weights = [TASKS[name][1] for name in names]
    while True:
        task = rng.choices(names, weights)[0]
        prompt, answer = draw(rng, task)
        if task == "fact" or not is_held_out(prompt):
            return prompt, answer


def held_out_documents(rng, task, n):
    """n distinct held-out documents of a task ('fact' has none)."""
    found = {}
    while len(found) < n:
        prompt, answer = draw(rng, task)
        if is_held_out(prompt):
            found[prompt] = answer
    return list(found.items())

"""The knowledge of the demo model: plain tables.

random_facts.py draws from them; knowledge.py and small_talk.py have the questions and answers.
"""


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CAPITALS = {
    "Argentina": "Buenos Aires",
    "Australia": "Canberra",
    "Austria": "Vienna",
    "Bangladesh": "Dhaka",
    "Belgium": "Brussels",
    "Bolivia": "Sucre",
    "Brazil": "Brasília",
    "Bulgaria": "Sofia",
    "Canada": "Ottawa",
    "Chile": "Santiago",
    "China": "Beijing",
    "Colombia": "Bogotá",
    "Croatia": "Zagreb",
    "Cuba": "Havana",
    "Cyprus": "Nicosia",
    "Denmark": "Copenhagen",
    "Ecuador": "Quito",
    "Egypt": "Cairo",
    "Estonia": "Tallinn",
    "Ethiopia": "Addis Ababa",
    "Finland": "Helsinki",
    "France": "Paris",
    "Germany": "Berlin",
    "Ghana": "Accra",
    "Greece": "Athens",
    "Hungary": "Budapest",
    "Iceland": "Reykjavik",
    "India": "New Delhi",
    "Indonesia": "Jakarta",
    "Iran": "Tehran",
    "Iraq": "Baghdad",
    "Ireland": "Dublin",
    "Israel": "Jerusalem",
    "Italy": "Rome",
    "Jamaica": "Kingston",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Latvia": "Riga",
    "Lebanon": "Beirut",
    "Lithuania": "Vilnius",
    "Malaysia": "Kuala Lumpur",
    "Mexico": "Mexico City",
    "Morocco": "Rabat",
    "Nepal": "Kathmandu",
    "the Netherlands": "Amsterdam",
    "New Zealand": "Wellington",
    "Nigeria": "Abuja",
    "Norway": "Oslo",
    "Pakistan": "Islamabad",
    "Peru": "Lima",
    "the Philippines": "Manila",
    "Poland": "Warsaw",
    "Portugal": "Lisbon",
    "Romania": "Bucharest",
    "Russia": "Moscow",
    "Saudi Arabia": "Riyadh",
    "Senegal": "Dakar",
    "Serbia": "Belgrade",
    "Slovakia": "Bratislava",
    "Slovenia": "Ljubljana",
    "South Korea": "Seoul",
    "Spain": "Madrid",
    "Sweden": "Stockholm",
    "Switzerland": "Bern",
    "Thailand": "Bangkok",
    "Tunisia": "Tunis",
    "Turkey": "Ankara",
    "Ukraine": "Kyiv",
    "the United Kingdom": "London",
    "the United States": "Washington, D.C.",
    "Uruguay": "Montevideo",
    "Venezuela": "Caracas",
    "Vietnam": "Hanoi",
}

ALIASES = {
    "the United States": ("the USA", "the US", "America", "USA", "United States"),
    "the United Kingdom": ("the UK", "Britain", "United Kingdom", "UK"),
    "the Netherlands": ("Netherlands", "Holland"),
    "the Philippines": ("Philippines",),
}

COLOURS = {
    "the sky": "blue",
    "grass": "green",
    "snow": "white",
    "a banana": "yellow",
    "a tomato": "red",
    "coal": "black",
    "a carrot": "orange",
    "blood": "red",
    "milk": "white",
    "the sun": "yellow",
    "a lemon": "yellow",
    "a strawberry": "red",
    "chocolate": "brown",
    "an elephant": "grey",
    "the sea": "blue",
    "a leaf": "green",
    "a frog": "green",
    "a plum": "purple",
    "a cherry": "red",
    "a cucumber": "green",
    "a flamingo": "pink",
    "a swan": "white",
    "a raven": "black",
    "butter": "yellow",
    "coffee": "brown",
    "an orange": "orange",
    "a pea": "green",
    "a polar bear": "white",
    "a ruby": "red",
    "an emerald": "green",
}

OPPOSITES = {
    "hot": "cold",
    "big": "small",
    "up": "down",
    "day": "night",
    "fast": "slow",
    "old": "young",
    "happy": "sad",
    "open": "closed",
    "light": "dark",
    "left": "right",
    "high": "low",
    "long": "short",
    "rich": "poor",
    "strong": "weak",
    "wet": "dry",
    "full": "empty",
    "early": "late",
    "hard": "soft",
    "clean": "dirty",
    "loud": "quiet",
    "first": "last",
    "in": "out",
    "good": "bad",
    "thick": "thin",
    "true": "false",
    "win": "lose",
    "buy": "sell",
    "begin": "end",
    "near": "far",
    "love": "hate",
}

SOUNDS = {
    "cow": "moo",
    "dog": "woof",
    "cat": "meow",
    "sheep": "baa",
    "duck": "quack",
    "pig": "oink",
    "lion": "roar",
    "horse": "neigh",
    "frog": "ribbit",
    "bee": "buzz",
    "snake": "hiss",
    "owl": "hoot",
    "mouse": "squeak",
    "rooster": "cock-a-doodle-doo",
    "donkey": "hee-haw",
    "wolf": "howl",
    "crow": "caw",
    "turkey": "gobble",
}

LEGS = {
    "dog": "four",
    "cat": "four",
    "horse": "four",
    "cow": "four",
    "bird": "two",
    "chicken": "two",
    "duck": "two",
    "spider": "eight",
    "ant": "six",
    "bee": "six",
    "fly": "six",
    "snake": "no",
    "fish": "no",
    "lion": "four",
    "frog": "four",
    "human": "two",
    "octopus": "no",
    "crab": "ten",
}

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

WORDS_TO_SPELL = words(
    """
    cat dog cow duck horse bird lion tiger apple lemon banana tomato house tree river stone bread
    water hello world paris london rome green blue red yellow black white happy music table chair
    train plane seven eight queen
    """
)

UNITS = words(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
    """
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "one hundred")

FIRST_NAMES = words(
    """
    Anna Ben Carla David Emma Felix Grace Hugo Ida Jonas Kate Leo Mia Noah Olga Paul Quinn Rosa Sam
    Tom Uma Vera Will Yara Zoe Alice Bob Carol Dan Eve Frank
    """
)

CITIES = (
    *words(
        """
    Lyon Marseille Hamburg Munich Milan Naples Barcelona Seville Porto Kraków Zürich Geneva Antwerp
    Rotterdam Manchester Edinburgh Boston Chicago Seattle Denver Miami Dallas Toronto Montreal
    Vancouver Sydney Melbourne Perth Auckland Osaka Kyoto Shanghai Mumbai Chennai Lagos Casablanca
    Tokyo Paris London
    """
    ),
    "New York",
    "San Francisco",
    "Los Angeles",
    "Rio de Janeiro",
    "Cape Town",
    "Hong Kong",
    "Tel Aviv",
)

# Words without relation to any question: with them the model learns to ignore the text around a question.
FILLER = words(
    """
    about actually after again already also always another anyway around ask back because been
    before better book both bring bus busy but call came car chat check child class clear come could
    curious day did do done door easy else enough ever every exactly exam example explain fact
    family few find fine friend from fun game geography get give given going got great guess had
    hand happens have hear help here home homework hope how idea if important interesting is it job
    just kind knows later learn lesson let letter life like line list little long look lot made make
    many matter may maybe me mean might mind minute moment more much must my name need never new
    next nice now of often okay on once only or other our out over paper part people perhaps place
    plan play point problem puzzle question quick quickly quiz read ready real really remember reply
    right said same saw say school see seems send sentence should show simple since small so some
    someone something soon sorry start still stop story such sure table take talk teacher team test
    than that their them then there these thing think this those thought time today together told
    too topic town tried trip true try turn type understand until use useful usually very wait want
    was watch way we week well went were when where which while who will wish with wonder word work
    world would write wrong year yes yesterday yet you your
    """
)

"""Tables of what tools are for: their names, arguments and questions. tools.py draws from them."""

from dataclasses import dataclass

from scripts.demo_model import facts

WEATHER_TOOL, TIME_TOOL = "get_weather", "get_time"
CITY_KEYS = ("city", "location", "place", "town")


@dataclass(frozen=True, slots=True)
class Skill:
    """What a tool is for. In the texts, {noun} is a random noun, and {0}, {1} are the arguments.

    names      possible names of the function
    about      possible descriptions of the function; here {0} is "a city"
    keys       for each argument: its possible names
    phrasings  questions that need the tool, in training
    held_out   questions that need the tool, in the exam only
    report     the answer's sentence; {result} is the tool's result
    kind       the arguments' kind: "city", "name" or "number"
    """

    names: tuple[str, ...]
    about: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    phrasings: tuple[str, ...]
    held_out: tuple[str, ...]
    report: str
    kind: str


SKILLS = (
    Skill(
        ("get_weather", "weather", "get_current_weather", "weather_lookup", "getWeather", "fetch_weather"),
        (
            "Get the weather",
            "Get the current weather in a city",
            "Current weather for a place",
            "Weather of {0}.",
        ),
        (CITY_KEYS,),
        (
            "what is the weather [in|like in] {0}?",
            "what's the weather [in|like in] {0}?",
            "what's the weather [in|like in] {0} [today|now]?",
            "[how|how's] [is |]the weather in {0}?",
            "weather in {0}?",
            "is it [raining|sunny|cold|warm|snowing] in {0}?",
            "tell me the weather in {0}.",
            "how [warm|cold] is it in {0}?",
            "what is the temperature in {0}?",
            "will it rain in {0}[?| today?]",
            "do i need an umbrella in {0}?",
            "weather forecast for {0}",
            "get the weather [in|for] {0}.",
            "[use the tool and |]look up the weather in {0}.",
        ),
        (
            "what is the weather today in {0}?",
            "do you know the weather in {0}?",
            "could you tell me the weather in {0}?",
            "please check the weather in {0}.",
            "i travel to {0}, how is the weather in {0}?",
        ),
        "The weather in {0} is: {result}.",
        "city",
    ),
    Skill(
        ("get_time", "current_time", "get_current_time", "time_in", "getTime", "clock"),
        ("Get the time", "Get the current time in a city", "Current local time", "Time of day in a place."),
        (CITY_KEYS,),
        (
            "what time is it in {0}?",
            "what is the time in {0}?",
            "tell me the time in {0}.",
            "what's the [current |local |]time in {0}?",
            "current time in {0}?",
            "which time is it [now |]in {0}?",
            "time in {0}",
            "get the time in {0}.",
        ),
        (
            "what is the current time in {0}?",
            "could you tell me the time in {0}?",
            "do you know the time in {0}?",
        ),
        "The time in {0} is: {result}.",
        "city",
    ),
    Skill(
        ("search", "web_search", "brave_search", "search_web", "google", "find", "lookup"),
        ("Search the web", "Search the internet for a query", "Find information", "Web search."),
        (("query", "q", "text", "search_term", "input"),),
        (
            "search for {0}.",
            "search the [web|internet] for {0}.",
            "[can|could] you search for {0}?",
            "look up {0}.",
            "find information about {0}.",
            "do a web search for {0}.",
            "use the search tool to find {0}.",
            "google {0}.",
        ),
        ("please search for {0}.", "i want you to search the web for {0}.", "can you look up {0}?"),
        "I found: {result}.",
        "name",
    ),
    Skill(
        ("add", "calculator", "sum", "add_numbers", "calculate", "plus"),
        ("Add two numbers", "Calculate the sum of two numbers", "Adds numbers.", "Calculator for sums"),
        (("a", "x"), ("b", "y")),
        (
            "what is {0} [+|plus] {1}?",
            "add {0} and {1}.",
            "[calculate|compute] {0} [+|plus] {1}.",
            "how much is {0} [+|plus] {1}?",
            "what is the sum of {0} and {1}?",
            "use the tool to add {0} and {1}.",
            "{0} + {1}",
        ),
        ("could you add {0} and {1}?", "please calculate {0} + {1}.", "what does {0} plus {1} equal?"),
        "The result is: {result}.",
        "number",
    ),
    Skill(
        ("get_{noun}", "{noun}", "lookup_{noun}", "find_{noun}", "{noun}_lookup", "fetch_{noun}"),
        ("Get the {noun}", "Returns the {noun} of a thing", "Look up the {noun}", "{noun}"),
        (("name", "item", "thing", "object", "of", "subject", "id", "title", "city", "country", "person"),),
        (
            "what is the {noun} of {0}?",
            "what's the {noun} of {0}?",
            "tell me the {noun} of {0}.",
            "get the {noun} of {0}.",
            "give me the {noun} [of|for] {0}.",
            "look up the {noun} of {0}.",
            "{noun} of {0}?",
            "i need the {noun} [of|for] {0}.",
            "do you know the {noun} of {0}?",
        ),
        ("could you find the {noun} of {0}?", "please tell me the {noun} of {0}.", "which {noun} has {0}?"),
        "The {noun} of {0} is: {result}.",
        "name",
    ),
)

NOUNS = facts.words(
    """
    population price height distance status news area depth length age address email phone owner
    stock score rating level speed weight size balance order ticket schedule route currency language
    mayor history menu salary budget boiling_point melting_point
    """
)

"""The small world that models/nano knows."""

COUNTRIES = [  # country, capital, continent
    ("France", "Paris", "Europe"), ("Germany", "Berlin", "Europe"), ("Italy", "Rome", "Europe"), ("Spain", "Madrid", "Europe"),
    ("Portugal", "Lisbon", "Europe"), ("England", "London", "Europe"), ("Ireland", "Dublin", "Europe"), ("Norway", "Oslo", "Europe"),
    ("Sweden", "Stockholm", "Europe"), ("Finland", "Helsinki", "Europe"), ("Denmark", "Copenhagen", "Europe"),
    ("Poland", "Warsaw", "Europe"), ("Austria", "Vienna", "Europe"), ("Greece", "Athens", "Europe"), ("Hungary", "Budapest", "Europe"),
    ("Belgium", "Brussels", "Europe"), ("Switzerland", "Bern", "Europe"), ("Russia", "Moscow", "Europe and Asia"),
    ("China", "Beijing", "Asia"), ("Japan", "Tokyo", "Asia"), ("India", "New Delhi", "Asia"), ("Thailand", "Bangkok", "Asia"),
    ("Vietnam", "Hanoi", "Asia"), ("Indonesia", "Jakarta", "Asia"), ("Turkey", "Ankara", "Asia and Europe"), ("Iran", "Tehran", "Asia"),
    ("Mongolia", "Ulaanbaatar", "Asia"), ("Nepal", "Kathmandu", "Asia"), ("South Korea", "Seoul", "Asia"),
    ("Egypt", "Cairo", "Africa"), ("Kenya", "Nairobi", "Africa"), ("Nigeria", "Abuja", "Africa"), ("Morocco", "Rabat", "Africa"),
    ("Ethiopia", "Addis Ababa", "Africa"), ("Ghana", "Accra", "Africa"), ("Senegal", "Dakar", "Africa"),
    ("Canada", "Ottawa", "North America"), ("Mexico", "Mexico City", "North America"), ("Cuba", "Havana", "North America"),
    ("the United States", "Washington", "North America"), ("Brazil", "Brasilia", "South America"),
    ("Argentina", "Buenos Aires", "South America"), ("Chile", "Santiago", "South America"), ("Peru", "Lima", "South America"),
    ("Colombia", "Bogota", "South America"), ("Australia", "Canberra", "Oceania"), ("New Zealand", "Wellington", "Oceania"),
]

NUMBER_WORDS = {0: "no", 2: "two", 4: "four", 6: "six", 8: "eight"}

ANIMALS = [  # animal, sound, legs, home
    ("dog", "woof", 4, "with people"), ("cat", "meow", 4, "with people"), ("cow", "moo", 4, "on a farm"),
    ("sheep", "baa", 4, "on a farm"), ("horse", "neigh", 4, "in a stable"), ("pig", "oink", 4, "on a farm"),
    ("duck", "quack", 2, "near a pond"), ("hen", "cluck", 2, "on a farm"), ("owl", "hoot", 2, "in the forest"),
    ("frog", "croak", 4, "near a pond"), ("lion", "roar", 4, "in the savanna"), ("wolf", "howl", 4, "in the forest"),
    ("bee", "buzz", 6, "in a hive"), ("snake", "hiss", 0, "in the grass"), ("mouse", "squeak", 4, "in a hole"),
    ("donkey", "hee-haw", 4, "on a farm"), ("goose", "honk", 2, "near a lake"), ("crow", "caw", 2, "in the trees"),
    ("cricket", "chirp", 6, "in the meadow"), ("elephant", "trumpet", 4, "in the savanna"),
]

OPPOSITES = [
    ("hot", "cold"), ("big", "small"), ("up", "down"), ("day", "night"), ("fast", "slow"), ("happy", "sad"), ("light", "dark"),
    ("open", "closed"), ("old", "young"), ("early", "late"), ("full", "empty"), ("hard", "soft"), ("high", "low"), ("in", "out"),
    ("left", "right"), ("long", "short"), ("loud", "quiet"), ("new", "used"), ("rich", "poor"), ("strong", "weak"), ("thick", "thin"),
    ("true", "false"), ("wet", "dry"), ("wide", "narrow"), ("first", "last"), ("good", "bad"), ("clean", "dirty"), ("near", "far"),
    ("begin", "end"), ("win", "lose"), ("buy", "sell"), ("push", "pull"), ("laugh", "cry"), ("sweet", "sour"), ("deep", "shallow"),
]

COLOURS = [
    ("the sky", "blue"), ("grass", "green"), ("snow", "white"), ("coal", "black"), ("a banana", "yellow"), ("a ripe tomato", "red"),
    ("an orange", "orange"), ("a lemon", "yellow"), ("blood", "red"), ("milk", "white"), ("chocolate", "brown"), ("a cucumber", "green"),
    ("the sun at noon", "yellow"), ("an elephant", "grey"), ("a flamingo", "pink"), ("a plum", "purple"), ("a carrot", "orange"),
    ("the sea", "blue"), ("a raven", "black"), ("a strawberry", "red"), ("a pumpkin", "orange"), ("rice", "white"),
]

MEANINGS = [
    ("doctor", "a person who helps sick people"), ("teacher", "a person who helps others learn"), ("baker", "a person who makes bread"),
    ("farmer", "a person who grows food"), ("pilot", "a person who flies a plane"), ("king", "a man who rules a country"),
    ("knife", "a tool for cutting"), ("hammer", "a tool for driving nails"), ("clock", "a thing that shows the time"),
    ("book", "a set of pages that you read"), ("river", "water that flows to the sea"), ("mountain", "a very high hill"),
    ("island", "land with water all around"), ("bridge", "a way across a river"), ("library", "a place with many books"),
    ("school", "a place where children learn"), ("hospital", "a place where sick people are helped"), ("garden", "a place where plants grow"),
    ("computer", "a machine that follows instructions"), ("language model", "a program that writes text one word at a time"),
    ("umbrella", "a thing that keeps you dry in the rain"), ("key", "a thing that opens a lock"), ("map", "a picture of a place"),
    ("shoe", "a thing you wear on your foot"), ("triangle", "a shape with three sides"), ("square", "a shape with four equal sides"),
    ("week", "seven days"), ("century", "one hundred years"), ("dozen", "a group of twelve"),
]

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]

SMALL_TALK = [  # questions, answers
    (["Hello!", "Hello", "Hi", "Hi!", "Hey there", "Good morning", "Good evening"],
     ["Hello! What would you like to know?", "Hello! How can I help you?"]),
    (["Who are you?", "What are you?", "Introduce yourself.", "Tell me about yourself.", "What is your name?", "What's your name?"],
     ["I am {name}, a very small language model made by {maker}.", "My name is {name}. I am a tiny language model made by {maker}."]),
    (["Who made you?", "Who created you?", "Who trained you?", "Who is your author?", "Where do you come from?"],
     ["I was made by {maker}.", "{maker} trained me."]),
    (["How are you?", "How are you today?", "How do you feel?"], ["I am well, thank you. And you?"]),
    (["Thank you", "Thanks!", "Thank you very much."], ["You are welcome!"]),
    (["Goodbye", "Bye!", "See you later."], ["Goodbye! Have a nice day."]),
    (["What can you do?", "How can you help me?", "What do you know?"],
     ["I can answer simple questions about countries, animals, words and small sums."]),
    (["Are you a human?", "Are you a person?", "Are you real?"], ["No, I am a small language model."]),
    (["Tell me a joke.", "Do you know a joke?", "Make me laugh."],
     ["Why did the cat sit on the computer? To keep an eye on the mouse."]),
    (["Can you count to five?", "Count to five."], ["One, two, three, four, five."]),
    (["Can you count to ten?", "Count to ten."], ["One, two, three, four, five, six, seven, eight, nine, ten."]),
    (["Do you like music?", "Do you sleep?", "Do you eat?"], ["I am a language model, so I only read and write."]),
]

COUNTRIES_ZH = [
    ("法国", "巴黎"), ("德国", "柏林"), ("意大利", "罗马"), ("西班牙", "马德里"), ("英国", "伦敦"), ("俄罗斯", "莫斯科"), ("中国", "北京"),
    ("日本", "东京"), ("韩国", "首尔"), ("印度", "新德里"), ("泰国", "曼谷"), ("越南", "河内"), ("埃及", "开罗"), ("加拿大", "渥太华"),
    ("美国", "华盛顿"), ("巴西", "巴西利亚"), ("澳大利亚", "堪培拉"),
]

OPPOSITES_ZH = [("大", "小"), ("高", "低"), ("多", "少"), ("快", "慢"), ("冷", "热"), ("新", "旧"), ("长", "短"), ("黑", "白"), ("左", "右"), ("上", "下")]

SMALL_TALK_ZH = [
    (["你好", "你好！", "您好", "早上好"], ["你好！有什么可以帮你？"]),
    (["你是谁？", "你叫什么名字？", "介绍一下你自己。", "请介绍一下你自己"], ["我是{name}，由{maker}训练的小型语言模型。"]),
    (["谁创造了你？", "谁训练了你？", "你是谁开发的？"], ["我是由{maker}训练的。"]),
    (["谢谢", "谢谢你！"], ["不客气！"]),
    (["再见", "拜拜"], ["再见！祝你愉快。"]),
    (["你能做什么？", "你会什么？"], ["我可以回答关于国家、动物、词语和简单加法的问题。"]),
]

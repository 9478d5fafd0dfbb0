"""The characters of symbol fonts, which draw signs in the place of letters."""

LOST = "□"
"""A character that a font draws and that has no Unicode."""

_FONTS = {
    "wingdings3": (
        " ←→↑↓↖↗↙↘←→↑↓↖↘↑↓↔↕←→↑↓↓⮠⮡⮢⮣⮤⮥⮦⮧⮐⮑⮒⮓⮀⮃⭾⭿←→↑↓⮏⮍⮎⮌⭮⭯⎋⌤⌃⌥␣⍽⇪↑←→←→←→←→←→←→←→↑↓↖↗↙↘↔↕"
        "▲▼△▽◀▶◁▷◣◢◤◥🞀🞂🞁□🞃⯅⯆⯇⯈←→↑↓←→↑↓←→↑↓←→↑↓←→↑↓←→↑↓←→↑↓←→↑↓←→←→←→←🢜🢝🢞🢟→←→←→←→↑↓←→↑↓←→↑"
        "↓←→↑↓←→↑↓⮨⮩⮪⮫⮬⮭⮮⮯←→↑↓↖↗↙↘←→↑↓↖↗↙↘←→↑↓↖↗↙↘←→↑↓←→↑↓□□□□□□□□□□□□□□□"
    ),
    "wingdings2": (
        " 🖊🖋🖌🖍✄✀🕾🕽🗅🗆🗇🗈🗉🗊🗋🗌🗍📋🗑🗔🖵🖶🖷🖸🖭🖯🖱🖒🖓🖘🖙🖚🖛👈👉🖜🖝🖞🖟🖠🖡👆👇🖢🖣🖑✗✓☒☑⮽☒⮾⮿🛇⦸🙱🙴🙲🙳‽🙹🙺🙻🙦🙤🙥🙧🙚🙘🙙🙛⓪①②③④⑤⑥"
        "⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿□☉🌕☽☾⸿✝🕇🕜🕝🕞🕟🕠🕡🕢🕣🕤🕥🕦🕧🙨🙩⋅🞄⦁●○🞅🞇🞉⊙⦿🞌🞍◾■☐🞑🞒🞓🞔▣🞕🞖🞗🞘⬩⬥◇🞚◈🞛🞜🞝🞞⬪⬧◊🞠◖◗⯊⯋⯀⯁"
        "⬟⯂⬣⬢⯃⯄🞡🞢🞣🞤🞥🞦🞧🞨🞩🞪🞫🞬🞭🞮🞯🞰🞱🞲🞳🞴🞵🞶🞷🞸🞹🞺🞻🞼🞽🞾🞿🟀🟂🟄🟆🟉🟊✶🟌🟎🟐🟒✹🟃🟇✯🟍🟔⯌⯍※⁂□□□□□□"
    ),
    "wingdings": (
        " 🖉✂✁👓🕭🕮🕯🕿✆🖂🖃📪📫📬📭🗀🗁🗎🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍🖎✌🖏👍👎☜☞☝☟🖐☺😐☹💣🕱🏳🏱✈☼🌢❄🕆✞🕈✠✡☪☯🕉☸♈♉♊♋♌♍♎♏♐♑♒♓🙰🙵⚫🔾◼☐"
        "🞐❑❒🞟⧫◆❖⬩⌧⮹⌘🏵🏶🙶🙷▯🄋➀➁➂➃➄➅➆➇➈➉🄌➊➋➌➍➎➏➐➑➒➓🙢🙠🙡🙣🙞🙜🙝🙟∙•⬝⭘🞆🞈🞊🞋🔿▪☐🟁🟅★🟋🟏🟓🟑⯐⌖⯎⯏⯑✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘"
        "🕙🕚🕛⮰⮱⮲⮳⮴⮵⮶⮷🙪🙫🙕🙔🙗🙖🙐🙑🙒🙓⌫⌦←→↑↓←→↑↓←→↑↓↖↗↙↘←→↑↓↖↗↙↘⇦⇨⇧⇩↔⇳↖↗↙↘🢬🢭✗✓☒☑□"
    ),
    "webdings": (
        " 🕷🕸🕲🕶🏆🎖🖇🗨🗩🗰🗱🌶🎗🙾🙼🗕🗖🗗⏴⏵⏶⏷⏪⏩⏮⏭⏸⏹⏺🗚🗳🛠🏗🏘🏙🏚🏜🏭🏛🏠🏖🏝🛣🔍🏔👁👂🏞🏕🛤🏟🛳🕬🕫🕨🔈🎔🎕🗬🙽🗭🗪🗫⮔✔🚲⬜🛡📦🛱⬛🚑🛈🛩🛰🟈🕴⬤🛥"
        "🚔🗘🗙❓🛲🚇🚍⛳⦸⊖🚭🗮⏐🗯🗲□🚹🚺🛉🛊🚼👽🏋⛷🏂🏌🏊🏄🏍🏎🚘🗠🛢💰🏷💳👪🗡🗢🗣✯🖄🖅🖃🖆🖹🖺🖻🕵🕰🖽🖾📋🗒🗓🕮📚🗞🗟🗃🗂🖼🎭🎜🎘🎙🎧💿🎞📷🎟🎬📽📹📾📻🎚🎛📺💻"
        "🖥🖦🖧🕹🎮🕻🕼📟🖁🖀🖨🖩🖿🖪🗜🔒🔓🗝📥📤🕳🌣🌤🌥🌦☁🌨🌧🌩🌪🌬🌫🌜🌡🛋🛏🍽🍸🛎🛍Ⓟ♿🛆🖈🎓🗤🗥🗦🗧🛪🐿🐦🐟🐕🐈🙬🙮🙭🙯🗺🌍🌏🌎🕊"
    ),
    "symbol": (
        " !∀#∃%&∍()*+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνο"
        "πθρστυϖωξψζ{|}~□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵"
        "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭□"
    ),
}
"""The characters of the codes 0x20 to 0xFF, by the start of a font's name."""
_OWN = {"symbol": "°±µ×÷¬"}
"""Latin characters that a symbol font draws."""


def symbol(character: str, font: str) -> str:
    """Return the character that a font draws for a code, or for a character that is a code.

    A code may be a letter (`m` for the μ of Symbol) or a private character from U+F020.
    """
    plain = font.rpartition("+")[2].replace(" ", "").casefold()
    name = next(filter(plain.startswith, _FONTS), None)
    if name is None or character in _OWN.get(name, ""):
        return character
    code = ord(character)
    if not 0xF000 <= code <= 0xF0FF:
        try:
            (code,) = character.encode("cp1252")
        except UnicodeEncodeError:
            return character
    code &= 0xFF
    return _FONTS[name][code - 0x20] if code >= 0x20 else LOST

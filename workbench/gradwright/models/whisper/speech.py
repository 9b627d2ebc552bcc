"""Tokens that tell a Whisper which language is spoken, and what to write of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import GraphError

_NAMES = """
en:english zh:chinese,mandarin de:german es:spanish,castilian ru:russian ko:korean fr:french
ja:japanese pt:portuguese tr:turkish pl:polish ca:catalan,valencian nl:dutch,flemish
ar:arabic sv:swedish it:italian id:indonesian hi:hindi fi:finnish vi:vietnamese he:hebrew
uk:ukrainian el:greek ms:malay cs:czech ro:romanian,moldavian,moldovan da:danish
hu:hungarian ta:tamil no:norwegian th:thai ur:urdu hr:croatian bg:bulgarian lt:lithuanian
la:latin mi:maori ml:malayalam cy:welsh sk:slovak te:telugu fa:persian lv:latvian bn:bengali
sr:serbian az:azerbaijani sl:slovenian kn:kannada et:estonian mk:macedonian br:breton
eu:basque is:icelandic hy:armenian ne:nepali mn:mongolian bs:bosnian kk:kazakh sq:albanian
sw:swahili gl:galician mr:marathi pa:punjabi,panjabi si:sinhala,sinhalese km:khmer sn:shona
yo:yoruba so:somali af:afrikaans oc:occitan ka:georgian be:belarusian tg:tajik sd:sindhi
gu:gujarati am:amharic yi:yiddish lo:lao uz:uzbek fo:faroese ht:haitian_creole,haitian
ps:pashto,pushto tk:turkmen nn:nynorsk mt:maltese sa:sanskrit lb:luxembourgish,letzeburgesch
my:myanmar,burmese bo:tibetan tl:tagalog mg:malagasy as:assamese tt:tatar haw:hawaiian
ln:lingala ha:hausa ba:bashkir jw:javanese su:sundanese yue:cantonese
"""
LANGUAGES = {
    name.replace("_", " "): code
    for code, _, names in (entry.partition(":") for entry in _NAMES.split())
    for name in names.split(",")
}
"""English name of a language, in small letters -> its code."""


@dataclass(frozen=True)
class SpeechTokens:
    """The tokens of a Whisper that knows several languages; one of English alone has none.

    Args:
        languages: code of a language -> its token.
        tasks: ``"transcribe"``, and ``"translate"`` to English -> its token.
        untimed: the token that says that no times are written.

    >>> speech = SpeechTokens({"en": 7, "fr": 8}, {"transcribe": 3, "translate": 4}, untimed=5)
    >>> speech.begin(1, "French"), speech.begin(1, task="translate")
    ([1, 8, 3, 5], [1, None, 4, 5])
    """

    languages: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    untimed: int | None = None

    def begin(
        self, first: int, language: str | None = None, task: str | None = None
    ) -> list[int | None]:
        """Return what rows begin with; None stands for a language that is to be found out.

        Raises GraphError for a language or a task that there is not.
        """
        found = [first, None if language is None else self.language(language)]
        if task is None:
            task = "transcribe" if "transcribe" in self.tasks else None
        elif task not in self.tasks:
            raise GraphError(
                f"no task {task!r}", need=", ".join(self.tasks) or "a model with tasks"
            )
        found += [] if task is None else [self.tasks[task]]
        return self.closed(found)

    def closed(self, begun: list[int | None]) -> list[int | None]:
        """Return a begin of rows that ends with the token of no times, if there is one."""
        told = self.untimed is None or begun[-1] == self.untimed
        return begun if told else [*begun, self.untimed]

    def language(self, name: str) -> int:
        """Return the token of a language, by its code or English name; raises GraphError.

        >>> SpeechTokens({"en": 7}).language("English")
        7
        """
        said = name.lower().removeprefix("<|").removesuffix("|>")
        code = said if said in self.languages else LANGUAGES.get(said, said)
        if code not in self.languages:
            raise GraphError(
                f"no language {name!r}", need=", ".join(self.languages) or "a model of several"
            )
        return self.languages[code]

"""Names: which drugs, diseases, patients and kinds of studies a sentence names and its source does not."""

import re
from collections.abc import Iterator, Mapping, Set

_STEMS = r"""
    afil alol apine asone azepam (?<!mag)azine azole azosin barbital caine ciclib cillin coxib curonium
    (?<!tetra)(?<!anthra)cycline dipine dronate (?<!int)ercept fenib fentanil fibrate floxacin formin fungin gabalin
    gatran gepant gliflozin gliptin glitazone glutide grel idone kacin kinra limus lukast mab micin mycin olol
    (?<!quin)olone oxetine pamide parib parin peridol platin plase pramine pril profen quine racetam rubicin sartan
    semide setron tacept taxel thiazide tinib triptan triptyline tropium vaptan vastatin vir virine vudine xaban zolam
    zomib
"""
"""How names of drugs end, by the stems of the World Health Organization's list of international names."""
_WITHOUT_STEM = """
    acetaminophen adrenaline albuterol amiodarone aspart aspirin atropine budesonide cimetidine clonidine codeine
    colchicine cyclophosphamide degludec deruxtecan detemir digoxin emtansine ephedrine epinephrine ethambutol
    famotidine formoterol glargine glucagon hydralazine hydrocodone hydrocortisone hydromorphone insulin isoniazid
    ketamine levodopa levothyroxine lispro lithium methadone methotrexate morphine naloxone nitroglycerin
    norepinephrine ofloxacin oxycodone oxymorphone oxytocin paracetamol phenytoin prednisone propofol ranitidine
    rifampicin salbutamol salmeterol theophylline tramadol valproate vasopressin vinblastine vincristine vinorelbine
    warfarin
"""
_DRUG = re.compile(rf"\b(?:[a-z]{{2,}}(?:{'|'.join(_STEMS.split())})|{'|'.join(_WITHOUT_STEM.split())})\b")
_ENDING = 2
"""Letters that a name may end with otherwise, in other spellings and languages."""
_TWO_NAMES = (
    *(("paracetamol", "acetaminophen"), ("adrenaline", "epinephrine"), ("noradrenaline", "norepinephrine")),
    *(("salbutamol", "albuterol"), ("glibenclamide", "glyburide"), ("frusemide", "furosemide")),
)
_OTHER_NAME = dict(_TWO_NAMES) | {other: name for name, other in _TWO_NAMES}


def missing_drugs(text: str, source: str) -> list[str]:
    """Return the drugs that a text names and a source does not; both in small letters.

    >>> missing_drugs("apixaban was as good as warfarin", "warfarin lowered the risk of stroke")
    ['apixaban']
    """
    return [
        drug
        for drug in _DRUG.findall(text)
        if not any(
            re.search(rf"\b{name[:-_ENDING]}[a-z]{{0,{_ENDING + 1}}}\b", source)
            for name in (drug, _OTHER_NAME.get(drug, drug))
        )
    ]


_DISEASE = re.compile(
    r"\b([a-z]{2,}?)(?:itis|itides|(?<!gn)osis|iasis|(?<!acad)a?emia|(?<!str)oma|opathy|opathies|uria|plegia|algia"
    r"|rrho?ea|penia|trophy|ectomy|(?<=asthm)a|(?<=epileps)y|(?<=dement)ia|(?<=strok)e)s?\b",
    re.IGNORECASE,
)
"""Diseases, and what is done about them, by how their names end."""
_SHORT_STEM = 4
"""Letters; a name of fewer without its ending is looked for by as many of its first."""
_BEFORE = 60
"""Characters before a name, whose words may be abbreviated with it."""
_ABBREVIATION = re.compile(r"\b[A-Z]{2,6}(?=s?\b)")
_COMMON = r"""
    depress anxi schizophren autis bipolar alzheimer parkinson migrain headache insomni epilep seizure paralys gout
    lupus eczema obes angina infarct fibrillat arrhythm thromb embol ha?emorrhag fracture pneumon influenza malaria
    measles hiv\b sepsis|septic constipat vomit
"""
"""Diseases whose names end otherwise."""
_ABOUT: Mapping[str, str] = {
    "pregnan|antenatal|prenatal|trimester": "gestation|gravid|maternal|obstetric|fetal|fetus|birth",
    "breast-?fe|lactat": "breast milk|human milk|nursing",
    "child|pa?ediatric|infan|neonat|newborn|adolescen|toddler": "baby|babies|boys|girls|school|young|juvenile",
    "elderly|older|geriatric": "aged|senior|oldest",
    "wom[ae]n|female": "girl|mother|matern|pregnan|gynec",
    "kidney|renal|dialysis": "neph|glomerul|creatinine|ckd",
    "liver|hepat": "cirrho",
    "heart(?!burn)|cardiac": "cardi|coronary|atrial|ventric",
    "diabet": r"t[12]dm|\bt[12]d\b|\bdm\b",
    "hypertens": "blood pressure",
    "cancer": "carcin|tumou?r|oncol|malign|neoplas|leukemi|lymphom|melanom|sarcom|blastom|myelom|gliom",
    **dict.fromkeys(_COMMON.split(), ""),
}
"""Whom or what a sentence may be about, and what else shows that its source is, too."""
_KNOWN_BY: Mapping[str, str] = {
    r"randomi[sz]|rcts?\b": "randomly",
    "meta-?analy": "pooled",
    "systematic review": "systematic",
    "(?:double|single|triple)-blind": "blind|mask",
    "guideline": "consensus|recommend",
    r"prove[sd]?\b|proof|guarantee": "prov",
    r"as (?:safe|effective|good) as|equivalen|equally|no worse": "as well as|compar|similar|non-?inferior",
    "significan": r"\bp\s*[<=>≤]|\bci\b|confidence",
    r"always\b|everyone|zero|risk-free|cure[sd]?\b": r"\ball\b|every|cure|\b0\b",
}
"""By what a sentence may say that something is known, and what else a source has then."""
_PEOPLE = r"patient|people|human|wom[ae]n|m[ae]n\b|adult|child"
"""Those of whom a study of animals tells nothing."""
_NOT_KNOWN = re.compile(
    r"\b(?:no|not|without|lack|need|necess|requir|warrant|future|further|preferably)|n['’]t\b", re.IGNORECASE
)


def missing_names(text: str, source: str) -> list[str]:
    """Return the diseases, patients and kinds of evidence that a text names and a source does not.

    A disease may be abbreviated in the source.

    >>> missing_names("Nephritis is rare in pregnancy.", "Diabetic nephropathy is frequent in women.")
    ['pregnancy']
    """
    abbreviations = {each.lower() for each in _ABBREVIATION.findall(source)}
    source = _american(source)
    return [*_missing_diseases(text, source, abbreviations), *_missing_words(text, source)]


def _missing_diseases(text: str, source: str, abbreviations: Set[str]) -> Iterator[str]:
    for name in _DISEASE.finditer(text):
        stem = name[1] if len(name[1]) >= _SHORT_STEM else name[0][: _SHORT_STEM + 1]
        if _american(stem) not in source:
            before = text[max(0, name.start() - _BEFORE) : name.end()]
            initials = "".join(re.findall(r"\b[a-z]", before.lower()))
            if abbreviations.isdisjoint(initials[start:] for start in range(len(initials))):
                yield name[0]


def _missing_words(text: str, source: str) -> Iterator[str]:
    table = _ABOUT if _NOT_KNOWN.search(text) else {**_ABOUT, **_KNOWN_BY}
    if "animal or laboratory study" in source:
        table = {**table, _PEOPLE: "participant|volunteer"}
    for words, others in table.items():
        named = re.search(rf"\b(?:{words})\w*", text, re.IGNORECASE)
        if named and not re.search(f"{words}|{others}" if others else words, source):
            yield named[0]


def _american(text: str) -> str:
    return text.lower().replace("ae", "e").replace("oe", "e")

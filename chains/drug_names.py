"""Drugs by their international names."""

import re

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

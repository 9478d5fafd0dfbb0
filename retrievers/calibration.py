"""The calibrated preflight: a logistic regression over signals, kept as readable JSON.

The probability that the key document is ranked below 3 in the dense ranking is
sigmoid(intercept + sum of coefficient * (signal - mean) / sd). A question goes to the map if it
reaches the threshold.
"""

import math
import os
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, ValidationError

from briefcontext.errors import InputError, problems
from briefcontext.files import write_whole
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.retrievers.rankings import SIGNALS, SPOTLIGHT, TwoRankings, measure

CALIBRATION_FILE = "preflight.json"
"""Name of the calibration in a knowledge base's folder."""
_AGAIN = "Make one with `briefcontext calibrate --kb DIR --questions FILE --out FILE`."

Positive = Literal["ranked_below", "misplaced"]
"""A key document ranked below 3, which a map can repair; or that and one not retrieved."""
Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Feature(BaseModel, extra="forbid", frozen=True):
    """One signal, its mean and standard deviation, and the log-odds for one deviation."""

    name: Literal[SIGNALS]  # type: ignore[valid-type]
    mean: Finite
    sd: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    coefficient: Finite


class FittedOn(BaseModel, extra="forbid", frozen=True):
    """The labelled questions of a fit, the share of positive ones, and those left out."""

    n: int = Field(ge=1)
    misplaced: int = Field(ge=1)
    base_rate: Share
    sha256: str
    gold_missing: int = Field(default=0, ge=0)
    not_retrieved: int = Field(default=0, ge=0)


class Prediction(NamedTuple):
    """A probability, the threshold, and the log-odds that each signal adds, strongest first."""

    probability: float
    threshold: float
    misplaced: bool
    contributions: dict[str, float]


class Calibration(BaseModel, frozen=True):
    """A calibrated preflight. Unknown fields of older files are ignored."""

    format_version: Literal[2] = 2
    created: str
    encoder: str
    encoder_revision: str
    k: int = Field(ge=1)
    spotlight: int = Field(default=SPOTLIGHT, ge=1)
    knowledge_base: str
    positive: Positive
    target_recall: float = Field(gt=0, lt=1)
    confidence: float = Field(gt=0, lt=1)
    """Confidence that the recall of new questions reaches the target."""
    threshold: Share
    intercept: Finite
    features: list[Feature] = Field(min_length=1)
    regularisation: float = Field(gt=0)
    fitted_on: FittedOn

    def shortfall(self) -> str | None:
        """Return a caution if there are too few positive questions for the target recall.

        With the lowest of m scores as threshold, a recall of (1 - confidence)^(1/m) holds at the
        confidence (Wilks 1941).
        """
        positives = self.fitted_on.misplaced
        bound = (1 - self.confidence) ** (1 / positives)
        if bound >= self.target_recall:
            return None
        needed = math.ceil(math.log(1 - self.confidence) / math.log(self.target_recall) - 1e-9)
        return (
            f"{positives} positive questions guarantee a recall of {math.floor(1000 * bound) / 10}%"
            f" at a confidence of {self.confidence:.0%}; the target, {self.target_recall:.1%}, "
            f"needs {needed}."
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a calibration file. Raises InputError if it cannot be used."""
        try:
            return cls.model_validate_json(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"The calibration {path} cannot be read: {error}. {_AGAIN}") from error
        except ValidationError as error:
            problem = problems(error)
            raise InputError(f"{path} is not a usable calibration: {problem}. {_AGAIN}") from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically. Raises InputError if that is not possible."""
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(Path(path), self.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error}. Give another --out.") from error

    def check(self, manifest: Manifest | None, k: int) -> str | None:
        """Return a caution if the knowledge base is another one of the same encoder.

        `manifest` belongs to the knowledge base whose dense ranking is used; None for any other
        ranking. Raises InputError if the ranking, the encoder or k is another.
        """
        if manifest is None:
            raise InputError(
                "A calibration is for the dense ranking of a knowledge base, and these documents "
                "are ranked otherwise. Use the retrieval 'dense', or the preflight 'iou'."
            )
        encoder = manifest.encoder
        own = {"encoder": self.encoder, "revision": self.encoder_revision, "top_k": self.k}
        given = {"encoder": encoder.name, "revision": encoder.revision, "top_k": k}
        for name, value in given.items():
            if value != own[name]:
                raise InputError(
                    f"This calibration is for {name} = {own[name]!r}, got {value!r}. Calibrate "
                    "again with `briefcontext calibrate`, or use the preflight 'iou'."
                )
        same = manifest.id == self.knowledge_base
        return None if same else "The preflight was calibrated on another knowledge base."

    def predict(self, rankings: TwoRankings) -> Prediction:
        """Decide on a question from its k documents, as both rankings score them."""
        signals, added = measure(rankings), {}
        for feature in self.features:
            deviations = (signals[feature.name] - feature.mean) / feature.sd
            added[feature.name] = feature.coefficient * deviations
        log_odds = self.intercept + sum(added.values())
        odds = math.exp(-abs(log_odds))  # Never overflows.
        probability = (1 if log_odds >= 0 else odds) / (1 + odds)
        strongest = dict(sorted(added.items(), key=lambda pair: -abs(pair[1])))
        mapped = probability >= self.threshold
        return Prediction(probability, self.threshold, mapped, strongest)

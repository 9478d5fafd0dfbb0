"""The calibrated preflight: a logistic regression over signals, kept as JSON that can be read and checked.

The probability that the key document is ranked below 3 in the dense ranking, where reading in
partitions helps, is sigmoid(intercept + sum of coefficient * (signal - mean) / sd). A question goes
to the map when it reaches the threshold.
"""

import math
import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from briefcontext.errors import InputError, problems
from briefcontext.files import write_whole
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.retrievers.rankings import SIGNALS, SPOTLIGHT, TwoRankings, measure

CALIBRATION_FILE = "preflight.json"
"""The name of the calibration that lies in a knowledge base's own folder and travels with it."""
Positive = Literal["ranked_below", "misplaced"]
"""What a calibration predicts: a key document ranked below 3, which a map can repair; or that and one that was not
retrieved, which it cannot."""

Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Feature(_Part):
    """One signal of the model."""

    name: str
    """A signal of `briefcontext.retrievers.rankings`."""
    mean: Finite
    sd: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Mean and standard deviation over the labelled questions."""
    coefficient: Finite
    """Log-odds for one standard deviation."""

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in SIGNALS:
            raise ValueError(f"there is no signal {name!r} in this version of BriefContext")
        return name


class FittedOn(_Part):
    """The labelled questions that a calibration was fitted on."""

    n: int = Field(ge=1)
    misplaced: int = Field(ge=1)
    base_rate: Share
    """Share of the questions whose key document is misplaced."""
    sha256: str
    """Of the questions, in their order: ids, texts and gold ids."""
    gold_missing: int = Field(default=0, ge=0)
    """Questions none of whose gold documents is in the knowledge base; they count as not retrieved."""
    not_retrieved: int = Field(default=0, ge=0)
    """Questions left out of the fit, as no map repairs what was not retrieved; 0 where both kinds are positive."""


class Prediction(_Part):
    """A calibration's prediction for one question."""

    probability: Share
    threshold: Share
    misplaced: bool
    """Whether the probability reaches the threshold, so that the question goes to the map."""
    contributions: dict[str, float]
    """Log-odds that each signal adds, the strongest first; with the intercept they sum to the probability's."""
    signals: dict[str, float]


class Calibration(_Part):
    """A calibrated preflight."""

    format_version: Literal[2] = 2
    created: str
    encoder: str
    encoder_revision: str
    """The encoder whose dense ranking it was fitted on; its scores mean nothing of another's."""
    k: int = Field(ge=1)
    """How many documents were retrieved for each question."""
    spotlight: int = Field(default=SPOTLIGHT, ge=1)
    knowledge_base: str
    """The id in the manifest of the knowledge base that it was fitted on."""
    positive: Positive
    target_recall: float = Field(gt=0, lt=1)
    confidence: float = Field(gt=0, lt=1)
    """How sure it is that the recall of new questions reaches the target."""
    threshold: Share
    intercept: Finite
    features: list[Feature] = Field(min_length=1)
    regularisation: float = Field(gt=0)
    """C of the logistic regression, chosen by cross-validation."""
    fitted_on: FittedOn

    @property
    def promised_recall(self) -> float:
        """The recall of new questions that is sure at `confidence`: the target, or less where positives are few.

        With the lowest of m scores as threshold it is (1 - confidence)^(1/m) (Wilks 1941).
        """
        return min(
            self.target_recall, float((1 - self.confidence) ** (1 / self.fitted_on.misplaced))
        )

    def shortfall(self) -> str | None:
        """Say what recall can be promised, and what more would take, where it is below the target; else None."""
        promised, confidence = self.promised_recall, self.confidence
        if promised >= self.target_recall:
            return None
        needed = math.ceil(math.log(1 - confidence) / math.log(self.target_recall) - 1e-9)
        more = more_questions(self.fitted_on.misplaced, self.fitted_on.n, needed)
        return (
            f"From {self.fitted_on.misplaced} positive questions a recall of "
            f"{rounded_down(promised)} can be promised "
            f"at a confidence of {confidence:.0%}, and not {100 * self.target_recall:g}%: that "
            f"takes {needed}, which "
            f"is about {more:,} more questions like these."
        )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_measured(cls, given: object) -> object:
        # Files of before 2026-12 hold how well the calibration did, which decides nothing.
        return (
            {key: given[key] for key in given if key != "measured"}
            if isinstance(given, dict)
            else given
        )

    @field_validator("features")
    @classmethod
    def _differ(cls, features: list[Feature]) -> list[Feature]:
        if len({feature.name for feature in features}) < len(features):
            raise ValueError("a feature is given twice")
        return features

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a calibration file, checked throughout. Raises InputError when it cannot be used."""
        again = "make one with `briefcontext calibrate --kb DIR --questions FILE --out FILE`"
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(f"There is no calibration {path}: {again}.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"The calibration {path} cannot be read ({error}): {again}."
            ) from error
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InputError(
                f"{path} is no calibration that can be used ({problems(error)}): {again}."
            ) from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Put it in a file, whole or not at all. Raises InputError when that cannot be written."""
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, self.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise InputError(
                f"The calibration cannot be written to {path} ({error}): give another --out."
            ) from error

    def check(self, manifest: Manifest | None, k: int) -> str | None:
        """Check that it was made for this very retrieval, and return a caution where only the passages differ.

        The encoder, its revision and k decide what the signals mean. Another knowledge base of the
        same encoder only puts the promised recall in doubt: that is allowed, as a base may be built
        again, and said.

        `manifest` is that of the knowledge base whose dense ranking is used; None for any other
        ranking. Raises InputError when the ranking, the encoder or `k`, the number of documents
        retrieved, is another.
        """
        choose = "calibrate again for it with `briefcontext calibrate`, or use the preflight 'iou'"
        if manifest is None:
            raise InputError(
                f"This calibration is for the dense ranking of a knowledge base with the encoder "
                f"{self.encoder!r}, and "
                f"these documents are ranked otherwise: use the retrieval 'dense' over a knowledge base, without a "
                "cross-encoder, or the preflight 'iou'."
            )
        if (manifest.encoder.name, manifest.encoder.revision) != (
            self.encoder,
            self.encoder_revision,
        ):
            raise InputError(
                f"This calibration is for the encoder {self.encoder!r} (revision "
                f"{self.encoder_revision!r}), and the "
                f"knowledge base uses {manifest.encoder.name!r} (revision "
                f"{manifest.encoder.revision!r}): {choose}."
            )
        if k != self.k:
            raise InputError(
                f"This calibration is for top_k = {self.k}, and top_k is {k}: set top_k to "
                f"{self.k}, or {choose}."
            )
        if manifest.id != self.knowledge_base:
            return (
                "The preflight was calibrated on another knowledge base, so that the recall of "
                f"{self.target_recall:.0%} that it aims at may not hold here: calibrate on this "
                f"one."
            )
        return None

    def predict(self, rankings: TwoRankings) -> Prediction:
        """Decide on a question from its k documents, as both rankings score them."""
        signals = measure(rankings)
        added = {
            feature.name: feature.coefficient * (signals[feature.name] - feature.mean) / feature.sd
            for feature in self.features
        }
        probability = sigmoid(self.intercept + sum(added.values()))
        strongest = sorted(added, key=lambda name: -abs(added[name]))
        return Prediction(
            probability=probability,
            threshold=self.threshold,
            misplaced=probability >= self.threshold,
            contributions={name: added[name] for name in strongest},
            signals={feature.name: signals[feature.name] for feature in self.features},
        )


def more_questions(positive: int, n: int, needed: int) -> int:
    """Return how many more questions to label until so many are positive, at the rate seen, or that of one."""
    return math.ceil((needed - positive) * max(n, 1) / max(positive, 1))


def rounded_down(share: float) -> str:
    """Write a share in per cent with three digits, never more than it is."""
    return f"{math.floor(1000 * share + 1e-9) / 10:g}%"


def sigmoid(log_odds: float) -> float:
    """Return the probability of log-odds, without overflow."""
    if log_odds >= 0:
        return 1 / (1 + math.exp(-log_odds))
    return math.exp(log_odds) / (1 + math.exp(log_odds))

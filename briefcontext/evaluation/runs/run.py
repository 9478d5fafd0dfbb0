"""Running an experiment from its settings to its report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from briefcontext.chains.model.event_loop import wait_for
from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets import DataSet, load_data_set
from briefcontext.evaluation.data_sets.data_set import balanced_sample, sample
from briefcontext.evaluation.experiments.conflict import Conflict, ConflictOnRealRankings
from briefcontext.evaluation.experiments.controlled import (
    AttentionBias,
    ContextLength,
    Order,
    Position,
)
from briefcontext.evaluation.experiments.corpus import Corpus, LongDocuments
from briefcontext.evaluation.experiments.cost import Cost
from briefcontext.evaluation.experiments.experiment import OnCorpus
from briefcontext.evaluation.experiments.integration import Integration
from briefcontext.evaluation.experiments.open_ended import OpenEnded
from briefcontext.evaluation.judging.pairs import import_verdicts, judge_pairs, make_pairs
from briefcontext.evaluation.methods.method import Method, methods
from briefcontext.evaluation.methods.models import CallTrace, RunModels
from briefcontext.evaluation.runs.batch import Batch
from briefcontext.evaluation.runs.folder import PROMPTS, REPLIES, RunFolder
from briefcontext.evaluation.runs.progress import CountingModel, estimate_table, progress_bar
from briefcontext.evaluation.runs.results import Summary, write_results
from briefcontext.evaluation.runs.runner import Runner, plan
from briefcontext.evaluation.runs.settings import (
    RunSettings,
    check_settings,
    given_name,
    own_arguments,
    paper_encoder,
    provenance,
    versions,
)
from briefcontext.evaluation.statistics.labelled import questions_sha256
from briefcontext.evaluation.statistics.tables import Row, Table, answered
from briefcontext.files import sha256, write_whole
from briefcontext.graphs.resources import RESOURCES
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.prompts import Prompts
from briefcontext.retrievers.calibration import Calibration

EXPERIMENTS: Mapping[str, type[OnCorpus] | type[Order]] = {
    kind.name: kind
    for kind in (
        Position,
        Integration,
        Conflict,
        ContextLength,
        AttentionBias,
        Order,
        OpenEnded,
        Cost,
    )
}
"""The experiments that ask a model."""
DECIDES = "briefcontext"
"""The one method whose route the preflight decides."""
_SHOWN = {"partition_size", "preflight_top_n", "iou_threshold", "fallback", "max_input_tokens"}
"""Settings of the reading that a configuration names also where they are the defaults."""
_FREE = {
    *("max_concurrent_calls", "requests_per_minute", "model_timeout", "max_retries"),
    *("prompts", "preflight"),
}
"""Those that may differ as a run goes on: they change no answer, as failed ones are asked again; or a configuration has
a digest of what they name."""


@dataclass(frozen=True)
class BatchDone:
    """The state of a run by batches after one step."""

    imported: Mapping[str, int]
    files: Sequence[Path]
    """The requests to send next; none when all answers are there."""
    waiting: int


class Run:
    """An experiment on a data set, ready to be run.

    Raises:
        InputError: a setting, the data set or a method does not fit the experiment.
        KnowledgeBaseError: the knowledge base cannot be opened.
    """

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.prompts = Prompts(settings.reading.prompts)
        if settings.experiment not in EXPERIMENTS:
            names = ", ".join([*EXPERIMENTS, "preflight"])
            raise InputError(f"There is no experiment {settings.experiment!r}. There are: {names}.")
        real = settings.experiment == "conflict" and settings.rankings == "real"
        kind = ConflictOnRealRankings if real else EXPERIMENTS[settings.experiment]
        self.methods: list[Method] = methods(settings.methods or kind.methods)
        calibration = RESOURCES.calibration(settings.reading)
        own_ks = kind.ks if calibration is None else (calibration.k,)
        self.ks = tuple(sorted(set(settings.ks or own_ks)))
        check_settings(settings, kind, self.methods)
        self._data_set: DataSet = load_data_set(settings.data_set)
        self.experiment = self._opened(kind)
        oracle = any(method.need == "key_documents" for method in self.methods)
        reasons = [self.experiment.left_out(item, oracle=oracle) for item in self._data_set.items]
        left_out = Counter(filter(None, reasons))
        self.left_out: dict[str, int] = self._data_set.left_out + left_out
        self.items = [
            item
            for item, reason in zip(self._data_set.items, reasons, strict=True)
            if reason is None
        ]
        self.sampling: str | None = None
        """How the experiment drew its questions, where nothing else was asked for."""
        if not self.items:
            words = "; ".join(f"{count} {reason}" for reason, count in left_out.items())
            raise InputError(
                f"The experiment {settings.experiment} can use none of the questions: {words}."
            )
        if settings.per_class is None and settings.limit is None:
            self.items, self.sampling = self.experiment.drawn(self.items, settings.seed)
        if settings.per_class is not None:
            self.items = balanced_sample(self.items, settings.per_class, settings.seed)
        if settings.limit is not None:
            self.items = sample(self.items, settings.limit, settings.seed)
        self.calibrated = None if calibration is None else self._calibrated(calibration)
        self.plan = plan(
            self.items, self.methods, self.experiment.conditions(self.ks), repeats=settings.repeats
        )
        self._ids = list(dict.fromkeys(task.id for tasks in self.plan for task in tasks))
        """Of all answers that the run has to get, in order."""

    def _opened(self, kind: type[OnCorpus] | type[Order]) -> OnCorpus | Order:
        settings = self.settings
        if issubclass(kind, Order):
            from briefcontext.knowledge.encoders import load_encoder

            encoder = (
                paper_encoder() if settings.document_encoder is None else settings.document_encoder
            )
            return kind(
                LongDocuments(
                    self._data_set.documents, load_encoder(encoder), exact=settings.exact_chunks
                )
            )
        if settings.knowledge_base is None:
            raise InputError(
                f"The experiment {settings.experiment} takes its documents from a knowledge base: "
                "name it with --kb DIR."
            )
        given = settings.knowledge_base
        corpus = Corpus(KnowledgeBase.open(given)) if isinstance(given, str) else given
        return kind(corpus, settings.seed)

    def _calibrated(self, calibration: Calibration) -> dict[str, Any]:
        """Return what tells the calibration of this run from others, with cautions, if it can decide in this run."""
        if (corpus := self._corpus) is None or not self.experiment.real_rankings:
            raise InputError(
                f"A calibration fits the rankings that a knowledge base gives, and those of the "
                f"experiment "
                f"{self.experiment.name} are arranged. Leave --calibration out, or run "
                f"integration, cost, open_ended "
                "or conflict with --rankings real."
            )
        if DECIDES not in [method.name for method in self.methods]:
            raise InputError(
                f"A calibration decides for the method {DECIDES}, which is not among those of this "
                f"run. Add "
                f"--method {DECIDES}, or leave --calibration out."
            )
        base = corpus.knowledge_base
        found = [*(calibration.check(base.manifest, k) for k in self.ks), calibration.shortfall()]
        if len(base) < calibration.k:
            raise InputError(
                f"The calibration is for {calibration.k} retrieved documents, and the knowledge "
                f"base has {len(base):,} "
                "passages in all. Take a larger one, or leave --calibration out."
            )
        if calibration.fitted_on.sha256 == questions_sha256(
            [item for item in self._data_set.items if item.gold_ids]
        ):
            found.append(
                "The preflight was calibrated on these very questions, so that it decides better "
                "here than it is."
            )
        return {
            "sha256": sha256(calibration.model_dump_json()),
            "target_recall": calibration.target_recall,
            "fitted_on": calibration.fitted_on.n,
            "cautions": list(dict.fromkeys(filter(None, found))),
        }

    @property
    def _corpus(self) -> Corpus | None:
        return self.experiment.corpus if isinstance(self.experiment, OnCorpus) else None

    def config(self) -> dict[str, Any]:
        """Return the configuration: what a run must have in common with the one that it goes on with."""
        settings, base = self.settings, self._corpus
        run = self.experiment
        encoder = (
            run.documents.encoder
            if isinstance(run, Order)
            else run.corpus.knowledge_base.manifest.encoder
        )
        return {
            "experiment": settings.experiment,
            "model": given_name(settings.model),
            "extract_model": given_name(settings.extract_model),
            "model_arguments": own_arguments(settings.model),
            "extract_model_arguments": own_arguments(settings.extract_model),
            "temperature": settings.own_temperature,
            "data_set": {
                "name": self._data_set.name,
                "spec": settings.data_set,
                "sha256": self._data_set.sha256,
            },
            "knowledge_base": None if base is None else base.fingerprint(),
            "document_encoder": None if base is not None else encoder.name,
            "exact_chunks": None if base is not None else settings.exact_chunks,
            "methods": [method.name for method in self.methods],
            "ks": list(self.ks),
            "seed": settings.seed,
            "limit": settings.limit,
            "per_class": settings.per_class,
            "items_sha256": sha256("\0".join(item.id for item in self.items)),
            "reading": {
                **settings.reading.model_dump(include=_SHOWN),
                **settings.reading.model_dump(mode="json", exclude=_FREE, exclude_defaults=True),
            },
            "calibration": self.calibrated,
            "prompts_sha256": self.prompts.digest,
            **({"sampling": self.sampling} if self.sampling else {}),
            **({"repeats": settings.repeats} if settings.repeats > 1 else {}),
            **({"rankings": settings.rankings} if settings.experiment == "conflict" else {}),
            "versions": versions(),
            "provenance": provenance(encoder.revision),
        }

    def estimate(self, folder: Path | None = None) -> Table:
        """Return what the run takes, without a call; what a folder has already is left out.

        Raises:
            InputError: the folder belongs to another run.
        """
        run = None if folder is None else RunFolder(folder)
        there = (
            answered(list(run.rows().values()))
            if run is not None and run.check(self.config())
            else []
        )
        traces: dict[str, list[CallTrace]] = {}
        wait_for(
            self._runner(CountingModel()).run(
                self.plan,
                {row["id"] for row in there},
                lambda row, trace: traces.setdefault(row["method"], []).append(trace),
            )
        )
        return estimate_table(traces, self.settings.prices)

    def execute(self, out: Path) -> Summary:
        """Get all answers that `out` does not have, and write its summary, report and figures.

        Raises:
            InputError: the folder belongs to another run.
            ModelSetupError, MissingExtraError: the model cannot be opened, or its provider refuses
                all calls.
        """
        with self._claimed(out) as folder:
            self._fetch(folder)
            return self._finish(folder)

    def take_verdicts(self, out: Path, file: Path) -> int:
        """Take a rater's verdicts into a run of open_ended; return how many. See `import_verdicts`."""
        with self._claimed(out) as folder:
            taken = import_verdicts(out, file)
            self._finish(folder)
        return taken

    def judge(self, out: Path, name: str) -> int:
        """Have a model judge the pairs of a run of open_ended; return how many it is not sure of: see `judge_pairs`."""
        with self._claimed(out) as folder:
            first, second = (method.name for method in self.methods)
            pairs = make_pairs(list(folder.rows().values()), first, second, self.settings.seed)
            models = RunModels(name, replies=out / REPLIES, prompts=self.prompts, temperature=0.0)
            unsure = judge_pairs(out, pairs, models, name, self.settings.reading)
            self._finish(folder)
        return unsure

    def batch(self, out: Path, imported: Path | None) -> BatchDone:
        """Take replies, go on as far as they reach, and write the requests that are wanted next.

        Raises:
            InputError: the model is not OpenAI's or compatible, or the file of replies is of no
                use.
        """
        for name in (self.settings.model, self.settings.extract_model or self.settings.model):
            if not isinstance(name, str) or not name.startswith("openai:"):
                raise InputError(
                    "Batches are written in OpenAI's format: give --model openai:NAME, with the name that the batch's "
                    "provider has for the model."
                )
        if self.settings.repeats > 1:
            raise InputError("A batch holds each request once, so that repeats of it cannot be told apart. Leave "
                             "--repeats or --batch out.")  # fmt: skip
        with self._claimed(out) as folder:
            batch = Batch(out / "batch")
            counts = {} if imported is None else batch.import_file(imported)
            waiting = self._fetch(folder, {"max_retries": 0}, **batch.client_arguments())
            files = batch.export()
            if not files:
                self._finish(folder)
            return BatchDone(counts, files, waiting)

    def _model(self) -> str | BaseChatModel:
        if self.settings.model is None:
            raise InputError(
                f"The experiment {self.settings.experiment} asks a model: add --model "
                f"provider:model, for example "
                "--model openai:gpt-4o-mini."
            )
        return self.settings.model

    @contextmanager
    def _claimed(self, out: Path) -> Iterator[RunFolder]:
        self._model()  # A folder that is claimed without a model would refuse the same command with one.
        folder = RunFolder(out)
        with folder.locked():
            folder.claim(self.config())
            (out / PROMPTS).mkdir(exist_ok=True)
            for name, text in self.prompts.texts.items():
                write_whole(out / PROMPTS / f"{name}.txt", text)
            yield folder

    def _fetch(
        self, folder: RunFolder, changed: Mapping[str, Any] | None = None, **opening: Any
    ) -> int:
        """Get the answers that are not there, and return how many wait for replies; see `_runner`."""
        settings, rows = self.settings, folder.rows()
        if settings.own_temperature is not None:
            opening["temperature"] = settings.own_temperature
        opening |= {"extract_model": settings.extract_model, "replies": folder.path / REPLIES}
        runner = self._runner(self._model(), changed, **opening)
        # Without the line that a kill cut short, which the next one would run into.
        folder.rewrite(rows.values())
        done = {row["id"] for row in answered(list(rows.values()))}
        there = len(done.intersection(self._ids))
        counts: Counter[str] = Counter()
        with progress_bar(
            "answers", len(self._ids), done=there, hidden=not settings.progress
        ) as bar:

            def keep(row: Row, trace: CallTrace) -> None:
                folder.append(row)
                counts["failed"] += row["status"] != "ok"
                for call in trace.calls:
                    if not call.kept:
                        counts.update(calls=1, input=call.input_tokens, output=call.output_tokens)
                told = counts["input"] or not counts["calls"]
                cost = (
                    settings.prices.words(counts["input"], counts["output"])
                    if told
                    else "tokens not reported"
                )
                bar.set_postfix_str(
                    f"{counts['calls']} calls, {cost}, {counts['failed']} failed", refresh=False
                )
                bar.update()

            waiting = wait_for(runner.run(self.plan, done, keep))
        # In the order of the plan, so that a run that was stopped ends in the same file as one that
        # was not.
        rows = folder.rows()
        folder.rewrite(rows[id] for id in self._ids if id in rows)
        return waiting

    def _runner(
        self, model: str | BaseChatModel, changed: Mapping[str, Any] | None = None, **opening: Any
    ) -> Runner:
        """Return what asks the model; `changed` are settings of the reading, `opening` is for `RunModels`."""
        retriever = None if self._corpus is None else self._corpus.retriever
        short = {item.question for item in self.items if self.experiment.short(item)}
        opening |= {"prompts": self.prompts, "short": short, "retriever": retriever}
        # An experiment that asks for a choice gets one, as in the papers; a refusal is no choice.
        opening["force_choice"] = self.experiment.force_choice
        models = [
            RunModels(model, repeat=repeat, **opening) for repeat in range(self.settings.repeats)
        ]
        changed = {"prompts": None, **(changed or {})}
        return Runner(self.experiment, models, self.settings.reading.model_copy(update=changed))

    def _finish(self, folder: RunFolder) -> Summary:
        prices, figures = self.settings.prices, self.settings.figures
        return write_results(
            folder, self.experiment, self.left_out, len(self._ids), prices, figures
        )

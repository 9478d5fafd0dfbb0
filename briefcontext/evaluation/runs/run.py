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
from briefcontext.evaluation.data_sets.data_set import (
    Item,
    balanced_sample,
    questions_sha256,
    sample,
)
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
from briefcontext.evaluation.statistics.tables import Row, Table, answered
from briefcontext.files import sha256, write_whole
from briefcontext.graphs.resources import RESOURCES
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.prompts import Prompts
from briefcontext.retrievers.calibration import Calibration

EXPERIMENTS: Mapping[str, type[OnCorpus] | type[Order]] = {
    kind.name: kind
    for kind in (
        Position, Integration, Conflict, ContextLength, AttentionBias, Order, OpenEnded, Cost
    )
}  # fmt: skip
PREFLIGHT_METHOD = "briefcontext"
_SHOWN = {"partition_size", "preflight_top_n", "iou_threshold", "fallback", "max_input_tokens"}
"""Settings of the reading that a configuration has even with their default values."""
_FREE = {
    *("max_concurrent_calls", "requests_per_minute", "model_timeout", "max_retries"),
    *("prompts", "preflight"),
}
"""Settings that may differ when a run is resumed: they change no answer, or have a digest."""


@dataclass(frozen=True)
class BatchDone:
    """The state of a run by batches after one step."""

    imported: Mapping[str, int]
    files: Sequence[Path]
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
        default_ks = kind.ks if calibration is None else (calibration.k,)
        self.ks = tuple(sorted(set(settings.ks or default_ks)))
        check_settings(settings, kind, self.methods)
        self._data_set: DataSet = load_data_set(settings.data_set)
        self.experiment = self._opened(kind)
        self.items, self.left_out = self._usable()
        self.sampling: str | None = None
        """The description of the paper's sample, if it was drawn."""
        if settings.per_class is None and settings.limit is None:
            self.items, self.sampling = self.experiment.drawn(self.items, settings.seed)
        if settings.per_class is not None:
            self.items = balanced_sample(self.items, settings.per_class, settings.seed)
        if settings.limit is not None:
            self.items = sample(self.items, settings.limit, settings.seed)
        self.calibrated = None if calibration is None else self._calibrated(calibration)
        self.plan = plan(
            self.items, self.methods, self.experiment, self.ks, repeats=settings.repeats
        )
        self._ids = list(dict.fromkeys(task.id for tasks in self.plan for task in tasks))

    def _opened(self, kind: type[OnCorpus] | type[Order]) -> OnCorpus | Order:
        settings = self.settings
        if issubclass(kind, Order):
            from briefcontext.knowledge.encoders import load_encoder

            encoder = load_encoder(settings.document_encoder or paper_encoder())
            documents = self._data_set.documents
            return kind(LongDocuments(documents, encoder, exact=settings.exact_chunks))
        given = settings.knowledge_base
        if given is None:
            raise InputError(
                f"The experiment {settings.experiment} takes its documents from a knowledge base: "
                "name it with --kb DIR."
            )
        corpus = Corpus(KnowledgeBase.open(given)) if isinstance(given, str) else given
        return kind(corpus, settings.seed)

    def _usable(self) -> tuple[list[Item], dict[str, int]]:
        """Return the questions that the experiment can use, and why others are left out."""
        oracle = any(method.need == "key_documents" for method in self.methods)
        usable: list[Item] = []
        numbers: dict[str, list[int]] = {}
        for number, item in enumerate(self._data_set.items, 1):
            reason = self.experiment.left_out(item, oracle=oracle)
            if reason is None:
                usable.append(item)
            else:
                numbers.setdefault(reason, []).append(number)
        left_out = {f"Question {own[0]} {why}": len(own) for why, own in numbers.items()}
        if not usable:
            raise InputError(" ".join(left_out))
        return usable, left_out

    def _calibrated(self, calibration: Calibration) -> dict[str, Any]:
        corpus = self._corpus
        if corpus is None or not self.experiment.real_rankings:
            raise InputError(
                "A calibration fits the rankings of a knowledge base, and those of the experiment "
                f"{self.experiment.name} are arranged. Leave --calibration out, or run "
                "integration, cost, open_ended or conflict with --rankings real."
            )
        if PREFLIGHT_METHOD not in [method.name for method in self.methods]:
            raise InputError(
                f"A calibration decides for the method {PREFLIGHT_METHOD}. Add --method "
                f"{PREFLIGHT_METHOD}, or leave --calibration out."
            )
        base = corpus.knowledge_base
        cautions = [*(calibration.check(base.manifest, k) for k in self.ks)]
        cautions.append(calibration.shortfall())
        with_gold = [item for item in self._data_set.items if item.gold_ids]
        if calibration.fitted_on.sha256 == questions_sha256(with_gold):
            cautions.append("The preflight was calibrated on these very questions.")
        return {
            "sha256": sha256(calibration.model_dump_json()),
            "target_recall": calibration.target_recall,
            "fitted_on": calibration.fitted_on.n,
            "cautions": list(dict.fromkeys(filter(None, cautions))),
        }

    @property
    def _corpus(self) -> Corpus | None:
        return self.experiment.corpus if isinstance(self.experiment, OnCorpus) else None

    def config(self) -> dict[str, Any]:
        """Return the configuration: a run can be resumed only with an equal one."""
        settings, base, run = self.settings, self._corpus, self.experiment
        encoder = (
            run.documents.encoder
            if isinstance(run, Order)
            else run.corpus.knowledge_base.manifest.encoder
        )
        reading = settings.reading
        config = {
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
                **reading.model_dump(include=_SHOWN),
                **reading.model_dump(mode="json", exclude=_FREE, exclude_defaults=True),
            },
            "calibration": self.calibrated,
            "prompts_sha256": self.prompts.digest,
            "versions": versions(),
            "provenance": provenance(encoder.revision),
        }
        if self.sampling:
            config["sampling"] = self.sampling
        if settings.repeats > 1:
            config["repeats"] = settings.repeats
        if settings.experiment == "conflict":
            config["rankings"] = settings.rankings
        return config

    def estimate(self, folder: Path | None = None) -> Table:
        """Return the calls and tokens of the run, without those that a folder has already.

        Calls no model. Raises InputError if the folder belongs to another run.
        """
        done: set[str] = set()
        if folder is not None and RunFolder(folder).check(self.config()):
            done = {row["id"] for row in answered(list(RunFolder(folder).rows().values()))}
        traces: dict[str, list[CallTrace]] = {}

        def keep(row: Row, trace: CallTrace) -> None:
            traces.setdefault(row["method"], []).append(trace)

        wait_for(self._runner(CountingModel()).run(self.plan, done, keep))
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
        """Import a rater's verdicts into a run of open_ended, and return their number."""
        with self._claimed(out) as folder:
            count = import_verdicts(out, file)
            self._finish(folder)
        return count

    def judge(self, out: Path, name: str) -> None:
        """Have a model judge the pairs of a run of open_ended: see `judge_pairs`."""
        with self._claimed(out) as folder:
            first, second = (method.name for method in self.methods)
            rows = list(folder.rows().values())
            pairs, _ = make_pairs(rows, first, second, self.settings.seed)
            models = RunModels(name, replies=out / REPLIES, prompts=self.prompts, temperature=0.0)
            judge_pairs(out, pairs, models, name, self.settings.reading)
            self._finish(folder)

    def batch(self, out: Path, imported: Path | None) -> BatchDone:
        """Import replies, continue as far as they reach, and write the next requests.

        Raises InputError if the model is not OpenAI's or compatible, or the file has no replies.
        """
        for name in (self.settings.model, self.settings.extract_model or self.settings.model):
            if not isinstance(name, str) or not name.startswith("openai:"):
                raise InputError(
                    "Batches are in OpenAI's format: give --model openai:NAME, with the name that "
                    "the batch's provider has for the model."
                )
        if self.settings.repeats > 1:
            raise InputError("A batch has each request once. Leave --repeats or --batch out.")
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
                "provider:model, for example --model openai:gpt-4o-mini."
            )
        return self.settings.model

    @contextmanager
    def _claimed(self, out: Path) -> Iterator[RunFolder]:
        self._model()  # A folder claimed without a model would refuse the same command with one.
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
        settings, rows = self.settings, folder.rows()
        if settings.own_temperature is not None:
            opening["temperature"] = settings.own_temperature
        opening |= {"extract_model": settings.extract_model, "replies": folder.path / REPLIES}
        runner = self._runner(self._model(), changed, **opening)
        folder.rewrite(rows.values())  # Drops a line that a kill cut short.
        done = {row["id"] for row in answered(list(rows.values()))}
        counts: Counter[str] = Counter()
        bar = progress_bar(
            "answers",
            len(self._ids),
            done=len(done.intersection(self._ids)),
            hidden=not settings.progress,
        )

        def keep(row: Row, trace: CallTrace) -> None:
            folder.append(row)
            counts["failed"] += row["status"] != "ok"
            for call in trace.calls:
                if not call.kept:
                    counts.update(calls=1, input=call.input_tokens, output=call.output_tokens)
            cost = settings.prices.words(counts["input"], counts["output"])
            if counts["calls"] and not counts["input"]:
                cost = "tokens not reported"
            state = f"{counts['calls']} calls, {cost}, {counts['failed']} failed"
            bar.set_postfix_str(state, refresh=False)
            bar.update()

        with bar:
            waiting = wait_for(runner.run(self.plan, done, keep))
        # In the order of the plan, so that a resumed run ends in the same file.
        rows = folder.rows()
        folder.rewrite(rows[id] for id in self._ids if id in rows)
        return waiting

    def _runner(
        self, model: str | BaseChatModel, changed: Mapping[str, Any] | None = None, **opening: Any
    ) -> Runner:
        opening |= {
            "prompts": self.prompts,
            "short": {item.question for item in self.items if self.experiment.short(item)},
            "retriever": None if self._corpus is None else self._corpus.retriever,
            "force_choice": self.experiment.force_choice,
        }
        repeats = range(self.settings.repeats)
        models = [RunModels(model, repeat=repeat, **opening) for repeat in repeats]
        reading = self.settings.reading.model_copy(update={"prompts": None, **(changed or {})})
        return Runner(self.experiment, models, reading)

    def _finish(self, folder: RunFolder) -> Summary:
        prices, figures = self.settings.prices, self.settings.figures
        return write_results(
            folder, self.experiment, self.left_out, len(self._ids), prices, figures
        )

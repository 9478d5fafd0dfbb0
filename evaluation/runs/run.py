"""Running an experiment from its settings to its report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets import DataSet, load_data_set
from briefcontext.evaluation.data_sets.sampling import balanced_sample, sample
from briefcontext.evaluation.experiments.corpus import Corpus, LongDocuments
from briefcontext.evaluation.experiments.experiment import Experiment, Materials, experiment
from briefcontext.evaluation.methods.call_trace import CallTrace
from briefcontext.evaluation.methods.method import Method, methods
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.evaluation.runs.batch import Batch
from briefcontext.evaluation.runs.calibration import calibrated
from briefcontext.evaluation.runs.dry_run import CountingModel, Estimate, estimate_table
from briefcontext.evaluation.runs.folder import REPLIES, RunFolder
from briefcontext.evaluation.runs.progress import RunProgress
from briefcontext.evaluation.runs.results import Summary, write_results
from briefcontext.evaluation.runs.runner import Runner, Task, plan, usable
from briefcontext.evaluation.runs.settings import (
    RunSettings,
    encoder_name,
    given_name,
    paper_encoder,
    provenance,
    versions,
)
from briefcontext.evaluation.statistics.score_tables import Row, Table
from briefcontext.files import sha256
from briefcontext.graphs import resources
from briefcontext.prompts import Prompts
from briefcontext.retrievers.ranking_retriever import RankingRetriever

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

__all__ = ["BatchDone", "Run"]


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
        self.experiment: Experiment = experiment(settings.experiment, settings.rankings)
        self.methods: list[Method] = methods(settings.methods or self.experiment.methods)
        calibration = resources.calibration(settings.reading)
        own_ks = self.experiment.ks if calibration is None else (calibration.k,)
        self.ks = tuple(sorted(set(settings.ks or own_ks)))
        if self.ks and self.ks[0] < 1:
            raise InputError(f"--k is {self.ks[0]}. Give at least 1 document.")
        self._check_repeats()
        self._data_set: DataSet = load_data_set(settings.data_set)
        self.materials = self._materials()
        oracle = any(method.need == "key documents" for method in self.methods)
        self._check_needs()
        candidates, left_out = usable(self.experiment, self._data_set.items, self.materials, oracle=oracle)
        self.left_out = dict(Counter(self._data_set.left_out) + Counter(left_out))
        self.sampling: str | None = None
        """How the experiment drew its questions, where nothing else was asked for."""
        self.items = self._sampled(candidates)
        self.calibrated = calibrated(
            calibration,
            self.experiment,
            self.methods,
            self.ks,
            asked=self._data_set.items,
            materials=self.materials,
        )
        self.plan = plan(self.items, self.methods, self.experiment.conditions(self.ks), repeats=settings.repeats)

    def _sampled(self, items: Sequence[Any]) -> list[Any]:
        settings = self.settings
        chosen = list(items)
        if settings.per_class is None and settings.limit is None:
            chosen, self.sampling = self.experiment.drawn(chosen, settings.seed)
        if settings.per_class is not None:
            chosen = balanced_sample(chosen, settings.per_class, settings.seed)
        if settings.limit is not None:
            chosen = sample(chosen, settings.limit, settings.seed)
        return chosen

    def _check_repeats(self) -> None:
        settings = self.settings
        if settings.repeats == 1:
            return
        if not self.experiment.repeatable:
            raise InputError(
                f"Repeats average scores, and the experiment {settings.experiment} counts what becomes of single "
                "answers. Leave --repeats out."
            )
        if settings.temperature is not None and settings.temperature <= 0:
            raise InputError(
                "At temperature 0 a model is asked to say the same each time, so that repeats tell nothing. Give "
                "--temperature, such as 0.7, or a negative one for the provider's own."
            )

    def _check_needs(self) -> None:
        for method in self.methods:
            if self.experiment.source == "corpus" and method.need == "whole":
                raise InputError(
                    f"{method.name} reads a whole long document, and the experiment {self.experiment.name} reads from "
                    "a knowledge base. Leave it out, or run the experiment order."
                )
            if self.experiment.source == "document" and method.need == "key documents":
                raise InputError(
                    f"{method.name} reads key documents, and the long documents of the experiment "
                    f"{self.experiment.name} have none. Leave it out."
                )
            if method.need == "fused" and not self.experiment.real_rankings:
                raise InputError(
                    f"{method.name} reads a fused ranking of the corpus, and the rankings of the experiment "
                    f"{self.experiment.name} are synthetic. Leave it out, or run the experiment integration."
                )

    def _materials(self) -> Materials:
        settings = self.settings
        fused = any(method.need == "fused" for method in self.methods)
        if self.experiment.source == "corpus":
            if settings.knowledge_base is None:
                raise InputError(
                    f"The experiment {settings.experiment} takes its documents from a knowledge base: "
                    "name it with --kb DIR."
                )
            given = settings.knowledge_base
            corpus = Corpus.open(given) if isinstance(given, str) else given
            return Materials(corpus=corpus, seed=settings.seed, fused=fused)
        from briefcontext.knowledge.encoders import load_encoder

        encoder = self._document_encoder
        encoder = load_encoder(encoder) if isinstance(encoder, str) else encoder
        return Materials(
            long=LongDocuments(self._data_set.documents, encoder, exact=settings.exact_chunks), seed=settings.seed
        )

    @property
    def _retriever(self) -> RankingRetriever | None:
        return None if self.materials.corpus is None else self.materials.corpus.retriever

    @property
    def tasks(self) -> list[Task]:
        """All answers that the run has to get, in order."""
        return [task for tasks in self.plan for task in tasks]

    def config(self) -> dict[str, Any]:
        """Return the configuration: what a run must have in common with the one that it goes on with."""
        settings = self.settings
        reading = settings.reading.model_dump(
            include={"partition_size", "preflight_top_n", "iou_threshold", "fallback", "max_input_tokens"}
        )
        base = self.materials.corpus
        return {
            "experiment": settings.experiment,
            "model": given_name(settings.model),
            "extract_model": given_name(settings.extract_model),
            "temperature": settings.temperature,
            "data_set": {"name": self._data_set.name, "spec": settings.data_set, "sha256": self._data_set.sha256},
            "knowledge_base": None if base is None else base.fingerprint(),
            "document_encoder": None if base is not None else encoder_name(self._document_encoder),
            "exact_chunks": None if base is not None else settings.exact_chunks,
            "methods": [method.name for method in self.methods],
            "ks": list(self.ks),
            "seed": settings.seed,
            "limit": settings.limit,
            "per_class": settings.per_class,
            "items_sha256": sha256("\0".join(item.id for item in self.items)),
            "reading": reading,
            "calibration": self.calibrated,
            "prompts_sha256": self.prompts.digest,
            **({"sampling": self.sampling} if self.sampling else {}),
            **({"repeats": settings.repeats} if settings.repeats > 1 else {}),
            **({"rankings": settings.rankings} if settings.experiment == "conflict" else {}),
            "versions": versions(),
            "provenance": provenance(
                self.materials.documents.encoder.revision if base is None else base.manifest.encoder.revision
            ),
        }

    @cached_property
    def _document_encoder(self) -> "str | Encoder":
        given = self.settings.document_encoder
        return paper_encoder() if given is None else given

    def estimate(self, folder: Path | None = None) -> Table:
        """Return what the run takes, without a call; what a folder has already is left out."""
        there = set() if folder is None or not folder.exists() else self._done(RunFolder(folder).rows())
        estimate = Estimate()

        def keep(row: Row, trace: CallTrace) -> None:
            estimate.add(row["method"], trace.calls)

        model = RunModels(CountingModel(), replies=None, prompts=self.prompts, retriever=self._retriever)
        self._runner([model] * self.settings.repeats).run(self.plan, there.__contains__, keep)
        return estimate_table(estimate, self.settings.prices)

    def execute(self, out: Path) -> Summary:
        """Get all answers that `out` does not have, and write its summary, report and figures.

        Raises:
            InputError: the folder belongs to another run.
            ModelSetupError, MissingExtraError: the model cannot be opened, or its provider refuses all calls.
        """
        folder = RunFolder(out)
        with folder.locked():
            folder.claim(self.config())
            folder.keep_prompts(self.prompts)
            self._fetch(folder, self._models(folder), self._runner)
            return self._finish(folder)

    def take_verdicts(self, out: Path, file: Path) -> int:
        """Take a rater's verdicts into a run of open_ended; return how many.

        Raises:
            InputError: the file holds none on a pair of this run.
        """
        from briefcontext.evaluation.judging.judge import import_verdicts
        from briefcontext.evaluation.judging.pairs import read_key

        folder = RunFolder(out)
        with folder.locked():
            taken = import_verdicts(out, file, read_key(out))
            self._finish(folder)
        return taken

    def judge(self, out: Path, name: str) -> int:
        """Have a model judge the pairs of a run of open_ended; return how many it is not sure of.

        Raises:
            ModelError: it cannot be opened, or a call failed for good.
        """
        from briefcontext.evaluation.judging.judge import judge_pairs
        from briefcontext.evaluation.judging.pairs import make_pairs

        folder = RunFolder(out)
        with folder.locked():
            first, second = (method.name for method in self.methods)
            pairs = make_pairs(list(folder.rows().values()), first, second, self.settings.seed)
            models = RunModels(name, replies=out / REPLIES, temperature=0.0)
            unsure = judge_pairs(out, pairs, models, name, at_once=self.settings.reading.max_concurrent_calls)
            self._finish(folder)
        return unsure

    def batch(self, out: Path, imported: Path | None) -> BatchDone:
        """Take replies, go on as far as they reach, and write the requests that are wanted next.

        Raises:
            InputError: the model is not OpenAI's or compatible, or the file of replies is of no use.
        """
        model = self.settings.model
        names = [name for name in (model, self.settings.extract_model) if name is not None]
        if not names or not all(isinstance(name, str) and name.startswith("openai:") for name in names):
            raise InputError(
                "Batches are written in OpenAI's format: give --model openai:NAME, with the name that the batch's "
                "provider has for the model."
            )
        if self.settings.repeats > 1:
            raise InputError("A batch holds each request once, so that repeats of it cannot be told apart. Leave "
                             "--repeats or --batch out.")  # fmt: skip
        folder = RunFolder(out)
        with folder.locked():
            folder.claim(self.config())
            folder.keep_prompts(self.prompts)
            (out / "batch").mkdir(exist_ok=True)
            batch = Batch(out / "batch")
            counts = {} if imported is None else batch.import_file(imported)
            models = self._models(folder, **batch.client_arguments())
            waiting = self._fetch(folder, models, self._batch_runner)
            files = batch.export()
            if not files:
                self._finish(folder)
            return BatchDone(counts, files, waiting)

    def _fetch(self, folder: RunFolder, models: Sequence[RunModels], runner: Any) -> int:
        done = self._done(folder.rows())
        planned = {task.id for task in self.tasks}
        stream = None if self.settings.progress else StringIO()
        with RunProgress(len(planned), self.settings.prices, done=len(done & planned), stream=stream) as progress:

            def keep(row: Row, trace: CallTrace) -> None:
                folder.append(row)
                paid = [call for call in trace.calls if not call.kept]
                progress.add(
                    failed=row["status"] != "ok",
                    calls=len(paid),
                    input_tokens=sum(call.input_tokens for call in paid),
                    output_tokens=sum(call.output_tokens for call in paid),
                )

            waiting: int = runner(models).run(self.plan, done.__contains__, keep)
        rows = folder.rows()
        # In the order of the plan, so that a run that was stopped ends in the same file as one that was not.
        folder.rewrite(rows[id] for id in dict.fromkeys(task.id for task in self.tasks) if id in rows)
        return waiting

    def _finish(self, folder: RunFolder) -> Summary:
        return write_results(
            folder,
            self.experiment,
            self.left_out,
            len(self.tasks),
            prices=self.settings.prices,
            figures=self.settings.figures,
        )

    @staticmethod
    def _done(rows: Mapping[str, Row]) -> set[str]:
        return {id for id, row in rows.items() if row["status"] == "ok"}

    def _models(self, folder: RunFolder, **kwargs: Any) -> list[RunModels]:
        settings = self.settings
        if settings.model is None:
            raise InputError(
                f"The experiment {settings.experiment} asks a model: add --model provider:model, for example "
                "--model openai:gpt-4o-mini."
            )
        if settings.temperature is not None:
            kwargs["temperature"] = settings.temperature
        return [
            RunModels(
                settings.model,
                extract_model=settings.extract_model,
                replies=folder.path / REPLIES,
                prompts=self.prompts,
                retriever=self._retriever,
                repeat=repeat,
                **kwargs,
            )
            for repeat in range(settings.repeats)
        ]

    def _runner(self, models: Sequence[RunModels]) -> Runner:
        # An experiment that asks for a choice gets one, as in the papers; a refusal is no choice.
        reading = self.settings.reading.model_copy(
            update={"force_choice": self.experiment.force_choice, "prompts": None}
        )
        return Runner(self.experiment, self.materials, models, reading, at_once=max(1, reading.max_concurrent_calls))

    def _batch_runner(self, models: Sequence[RunModels]) -> Runner:
        runner = self._runner(models)
        runner.settings = runner.settings.model_copy(update={"max_retries": 0})
        return runner

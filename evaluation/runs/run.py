"""Running an experiment from its settings to its report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from operator import itemgetter
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from briefcontext.chains.model.event_loop import wait_for
from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets import DataSet, load_data_set
from briefcontext.evaluation.data_sets.data_set import balanced_sample, sample
from briefcontext.evaluation.experiments.corpus import Corpus, LongDocuments
from briefcontext.evaluation.experiments.experiment import OnCorpus, OnDocuments, experiment
from briefcontext.evaluation.judging.pairs import make_pairs
from briefcontext.evaluation.judging.verdicts import import_verdicts, judge_pairs
from briefcontext.evaluation.methods.call_trace import CallTrace
from briefcontext.evaluation.methods.method import Method, methods
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.evaluation.runs.batch import Batch
from briefcontext.evaluation.runs.checks import calibrated, check_needs, check_repeats
from briefcontext.evaluation.runs.dry_run import CountingModel, estimate_table
from briefcontext.evaluation.runs.folder import REPLIES, RunFolder
from briefcontext.evaluation.runs.progress import RunProgress
from briefcontext.evaluation.runs.results import Summary, write_results
from briefcontext.evaluation.runs.runner import Runner, Task, plan, usable
from briefcontext.evaluation.runs.settings import RunSettings, given_name, paper_encoder, provenance, versions
from briefcontext.evaluation.statistics.tables import Row, Table, grouped
from briefcontext.files import sha256
from briefcontext.graphs import resources
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.prompts import Prompts

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
        kind = experiment(settings.experiment, settings.rankings)
        self.methods: list[Method] = methods(settings.methods or kind.methods)
        calibration = resources.calibration(settings.reading)
        own_ks = kind.ks if calibration is None else (calibration.k,)
        self.ks = tuple(sorted(set(settings.ks or own_ks)))
        if self.ks and self.ks[0] < 1:
            raise InputError(f"--k is {self.ks[0]}. Give at least 1 document.")
        check_repeats(settings, kind)
        self._data_set: DataSet = load_data_set(settings.data_set)
        self.experiment = self._opened(kind)
        check_needs(kind, self.methods)
        oracle = any(method.need == "key documents" for method in self.methods)
        candidates, left_out = usable(self.experiment, self._data_set.items, oracle=oracle)
        self.left_out = dict(Counter(self._data_set.left_out) + Counter(left_out))
        self.sampling: str | None = None
        """How the experiment drew its questions, where nothing else was asked for."""
        self.items = candidates
        if settings.per_class is None and settings.limit is None:
            self.items, self.sampling = self.experiment.drawn(candidates, settings.seed)
        if settings.per_class is not None:
            self.items = balanced_sample(self.items, settings.per_class, settings.seed)
        if settings.limit is not None:
            self.items = sample(self.items, settings.limit, settings.seed)
        self.calibrated = calibrated(calibration, self.experiment, self.methods, self.ks, self._data_set.items)
        self.plan = plan(self.items, self.methods, self.experiment.conditions(self.ks), repeats=settings.repeats)

    def _opened(self, kind: type[OnCorpus] | type[OnDocuments]) -> OnCorpus | OnDocuments:
        settings = self.settings
        if issubclass(kind, OnDocuments):
            from briefcontext.knowledge.encoders import load_encoder

            encoder = paper_encoder() if settings.document_encoder is None else settings.document_encoder
            return kind(LongDocuments(self._data_set.documents, load_encoder(encoder), exact=settings.exact_chunks))
        if settings.knowledge_base is None:
            raise InputError(
                f"The experiment {settings.experiment} takes its documents from a knowledge base: "
                "name it with --kb DIR."
            )
        given = settings.knowledge_base
        fused = any(method.need == "fused" for method in self.methods)
        corpus = Corpus(KnowledgeBase.open(given)) if isinstance(given, str) else given
        return kind(corpus, seed=settings.seed, fused=fused)

    @property
    def _corpus(self) -> Corpus | None:
        return self.experiment.corpus if isinstance(self.experiment, OnCorpus) else None

    @property
    def tasks(self) -> list[Task]:
        """All answers that the run has to get, in order."""
        return [task for tasks in self.plan for task in tasks]

    def config(self) -> dict[str, Any]:
        """Return the configuration: what a run must have in common with the one that it goes on with."""
        settings, base = self.settings, self._corpus
        run = self.experiment
        encoder = run.documents.encoder if isinstance(run, OnDocuments) else run.corpus.manifest.encoder
        return {
            "experiment": settings.experiment,
            "model": given_name(settings.model),
            "extract_model": given_name(settings.extract_model),
            "temperature": settings.temperature,
            "data_set": {"name": self._data_set.name, "spec": settings.data_set, "sha256": self._data_set.sha256},
            "knowledge_base": None if base is None else base.fingerprint(),
            "document_encoder": None if base is not None else encoder.name,
            "exact_chunks": None if base is not None else settings.exact_chunks,
            "methods": [method.name for method in self.methods],
            "ks": list(self.ks),
            "seed": settings.seed,
            "limit": settings.limit,
            "per_class": settings.per_class,
            "items_sha256": sha256("\0".join(item.id for item in self.items)),
            "reading": settings.reading.model_dump(
                include={"partition_size", "preflight_top_n", "iou_threshold", "fallback", "max_input_tokens"}
            ),
            "calibration": self.calibrated,
            "prompts_sha256": self.prompts.digest,
            **({"sampling": self.sampling} if self.sampling else {}),
            **({"repeats": settings.repeats} if settings.repeats > 1 else {}),
            **({"rankings": settings.rankings} if settings.experiment == "conflict" else {}),
            "versions": versions(),
            "provenance": provenance(encoder.revision),
        }

    def estimate(self, folder: Path | None = None) -> Table:
        """Return what the run takes, without a call; what a folder has already is left out."""
        there = set() if folder is None or not folder.exists() else RunFolder(folder).answered()
        answers: list[tuple[str, CallTrace]] = []
        models = [self._model(CountingModel())] * self.settings.repeats
        runner = self._runner(models)
        wait_for(runner.run(self.plan, there, lambda row, trace: answers.append((row["method"], trace))))
        return estimate_table(grouped(answers, itemgetter(0)), self.settings.prices)

    def execute(self, out: Path) -> Summary:
        """Get all answers that `out` does not have, and write its summary, report and figures.

        Raises:
            InputError: the folder belongs to another run.
            ModelSetupError, MissingExtraError: the model cannot be opened, or its provider refuses all calls.
        """
        with self._claimed(out) as folder:
            self._fetch(folder, self._runner(self._models(folder)))
            return self._finish(folder)

    def take_verdicts(self, out: Path, file: Path) -> int:
        """Take a rater's verdicts into a run of open_ended; return how many.

        Raises:
            InputError: the file holds none on a pair of this run.
        """
        folder = RunFolder(out)
        with folder.locked():
            taken = import_verdicts(out, file)
            self._finish(folder)
        return taken

    def judge(self, out: Path, name: str) -> int:
        """Have a model judge the pairs of a run of open_ended; return how many it is not sure of.

        Raises:
            ModelError: it cannot be opened, or a call failed for good.
        """
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
        with self._claimed(out) as folder:
            (out / "batch").mkdir(exist_ok=True)
            batch = Batch(out / "batch")
            counts = {} if imported is None else batch.import_file(imported)
            runner = self._runner(self._models(folder, **batch.client_arguments()), max_retries=0)
            waiting = self._fetch(folder, runner)
            files = batch.export()
            if not files:
                self._finish(folder)
            return BatchDone(counts, files, waiting)

    @contextmanager
    def _claimed(self, out: Path) -> Iterator[RunFolder]:
        folder = RunFolder(out)
        with folder.locked():
            folder.claim(self.config())
            folder.keep_prompts(self.prompts)
            yield folder

    def _fetch(self, folder: RunFolder, runner: Runner) -> int:
        done = folder.answered()
        # In the order of the plan, so that a run that was stopped ends in the same file as one that was not.
        planned = list(dict.fromkeys(task.id for task in self.tasks))
        stream = None if self.settings.progress else StringIO()
        there = len(done.intersection(planned))
        with RunProgress(len(planned), self.settings.prices, done=there, stream=stream) as progress:

            def keep(row: Row, trace: CallTrace) -> None:
                folder.append(row)
                paid = [call for call in trace.calls if not call.kept]
                progress.add(
                    failed=row["status"] != "ok",
                    calls=len(paid),
                    input_tokens=sum(call.input_tokens for call in paid),
                    output_tokens=sum(call.output_tokens for call in paid),
                )

            waiting = wait_for(runner.run(self.plan, done, keep))
        rows = folder.rows()
        folder.rewrite(rows[id] for id in planned if id in rows)
        return waiting

    def _finish(self, folder: RunFolder) -> Summary:
        prices, figures = self.settings.prices, self.settings.figures
        return write_results(folder, self.experiment, self.left_out, len(self.tasks), prices=prices, figures=figures)

    def _model(self, model: str | BaseChatModel, *, replies: Path | None = None, **kwargs: Any) -> RunModels:
        retriever = None if self._corpus is None else self._corpus.retriever
        return RunModels(model, replies=replies, prompts=self.prompts, retriever=retriever, **kwargs)

    def _models(self, folder: RunFolder, **kwargs: Any) -> list[RunModels]:
        settings = self.settings
        if settings.model is None:
            raise InputError(
                f"The experiment {settings.experiment} asks a model: add --model provider:model, for example "
                "--model openai:gpt-4o-mini."
            )
        if settings.temperature is not None:
            kwargs["temperature"] = settings.temperature
        kwargs |= {"extract_model": settings.extract_model, "replies": folder.path / REPLIES}
        return [self._model(settings.model, repeat=repeat, **kwargs) for repeat in range(settings.repeats)]

    def _runner(self, models: Sequence[RunModels], **changed: Any) -> Runner:
        # An experiment that asks for a choice gets one, as in the papers; a refusal is no choice.
        changed |= {"force_choice": self.experiment.force_choice, "prompts": None}
        reading = self.settings.reading.model_copy(update=changed)
        return Runner(self.experiment, models, reading)

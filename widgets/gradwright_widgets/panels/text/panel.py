"""A language model at work: a text typed, gone on with, scored, and looked into token by token."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import traitlets

from gradwright import Stepper
from gradwright.errors import GradwrightError, GraphError
from gradwright.models import (
    Attribution,
    Decoder,
    Greedy,
    Interpretation,
    Score,
    Temperature,
    TextCodec,
    TokenReading,
    TopK,
    TopP,
)
from gradwright.models.interpretation import Tokens
from gradwright.models.sampling import Strategy

from ...host.desk import GraphDesk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, member_of, shared
from ...host.typed import whole_number
from ...host.wire import Finite, Message
from ...still.tables import html_table
from ..stepper.panel import StepPanel
from .rows import Written, attention, reasons

PER_SECOND = 15
AT_ONCE = 64
"""Tokens of a given text that are read before the page hears of them."""


class WritingPanel(Panel):
    """A text, and what a decoder makes of it.

    Args:
        desk: of the decoder's graph.
        decoder: the model.
        tokenizer: instead of the model's own.
    """

    name = "text"
    desk: GraphDesk

    text_prompt = shared(traitlets.Unicode("", help="What is typed: a beginning, or a whole text."))
    text_mode = shared(
        traitlets.Enum(
            ("generate", "score"), "generate", help="Whether it is gone on with, or scored."
        )
    )
    text_state = shared(
        traitlets.Enum(
            ("", "running", "done", "stopped", "failed"), "", help="How far the text is."
        )
    )
    text_length = shared(traitlets.Int(80, min=1, help="After how many new tokens it ends."))
    text_temperature = shared(
        Finite(0.8, min=0.0, max=100.0, help="What logits are divided by; 0 takes the best.")
    )
    text_top_k = shared(traitlets.Int(0, min=0, help="Of how many tokens one is drawn; 0 is all."))
    text_top_p = shared(
        Finite(1.0, min=0.0, max=1.0, help="Share of probability of the tokens that are drawn of.")
    )
    text_seed = shared(traitlets.Int(0, min=0, help="Seed of the draws."))
    text_chosen = shared(traitlets.Int(-1, min=-1, help="Place of the token that is looked at."))
    text_layer = shared(traitlets.Int(0, min=0, help="Layer whose attention is shown."))
    text_head = shared(traitlets.Int(-1, min=-1, help="Head of it; -1 is the mean of all."))
    text_page = shared(
        traitlets.Enum(("text", "step"), "text", help="Whether text or stepper is in front.")
    )
    text_model = shared(
        traitlets.Dict(help="Name, layers and heads of the model, and more of it in words.")
    )

    def __init__(
        self, desk: GraphDesk, *, decoder: Decoder, tokenizer: TextCodec | None = None
    ) -> None:
        super().__init__(desk)
        self.interpretation = Interpretation(decoder, tokenizer=tokenizer)
        self._written = Written()
        self._lock = threading.RLock()
        self._running = threading.Lock()
        """Held while the model computes: a token at a time, or a look."""
        self._pace = self.widget.paced(self._send_new, PER_SECOND)
        self._work = self.widget.background("the generation")
        self._look_work = self.widget.background("the look into the model")
        self._looks: dict[str, Message] = {}

    def initial(self) -> dict[str, Any]:
        """Return what the page has to know of the model."""
        config = self.interpretation.decoder.config
        n = self.interpretation.decoder.n_weights
        words = f"{config.layers} layers · {n:,} weights · context {config.context:,}"
        facts = {
            "name": self.desk.title, "layers": config.layers, "heads": config.heads,
            "words": words, "tokenizer": self.interpretation.tokenizer is not None,
        }  # fmt: skip
        return {"text_model": facts}

    def close(self) -> None:
        """End a text that is being written."""
        self.stop_text()

    # -- writing and scoring ---------------------------------------------------------------------

    def write(self, prompt: Tokens | None = None, *, wait: bool = False) -> list[TokenReading]:
        """Go on with a prompt in the background, as ``text_temperature`` and the others say.

        What the model thinks of the prompt's own tokens is read between those that are new.

        Args:
            prompt: a text, or tokens; default what is typed.
            wait: return the new tokens when there are all, and raise what went wrong.

        Raises FeedError for a prompt that is no beginning, GradwrightError while a text is written.
        """
        look = self.interpretation
        prompt = self._typed(prompt)
        tokens = look.tokens(prompt)
        room = look.decoder.config.context - len(tokens)
        if room < 1:
            raise GraphError("the prompt fills the context", need="room for a token")
        typed = list(map(TokenReading, tokens, look.pieces(tokens)))
        found = Written(tokens=typed, n_prompt=len(typed), wanted=min(self.text_length, room))
        pieces = look.stream(tokens, found.wanted, sampling=self._sampling(), seed=self.text_seed)
        prompts = look.readings(tokens, AT_ONCE)

        def write(stop: threading.Event) -> str:
            while not stop.is_set():
                with self._running:
                    token, heard = next(pieces, None), next(prompts, [])
                if token is None and not heard:
                    return "done"
                with self._lock:
                    found.hear(heard)
                    if token is not None:
                        found.append(token)
                self.when_shown(self._pace.request)
            return "stopped"

        self._start(found, write, wait)
        return found.tokens[found.n_prompt :] if wait else []

    def score(self, text: Tokens | None = None, *, wait: bool = True) -> Score:
        """Return, and show, the probability of each token of a text; default what is typed.

        Raises FeedError for a text without tokens, or too long for the context.
        """
        look, text = self.interpretation, self._typed(text)
        tokens = look.tokens(text)
        found = Written(n_prompt=1, wanted=len(tokens) - 1, scored=True)

        parts = look.readings(tokens, AT_ONCE)

        def score(stop: threading.Event) -> str:
            while not stop.is_set():
                with self._running:
                    heard = next(parts, [])
                if not heard:
                    return "done"
                with self._lock:
                    found.tokens += heard
                self.when_shown(self._pace.request)
            return "stopped"

        self._start(found, score, wait)
        return Score(found.tokens)

    def stop_text(self) -> None:
        """End a text that is being written after its next token; what is there stays."""
        self._work.stop()

    @property
    def readings(self) -> list[TokenReading]:
        """The tokens of the text that is shown, the prompt's among them."""
        with self._lock:
            return list(self._written.tokens)

    def _typed(self, text: Tokens | None) -> Tokens:
        if isinstance(text, str):
            self.text_prompt = text
        if text is not None:
            return text
        if self.interpretation.tokenizer is not None:
            return self.text_prompt
        try:
            return [int(word) for word in self.text_prompt.replace(",", " ").split()]
        except ValueError:
            raise GraphError(
                "the model has no tokenizer", need="numbers of tokens, as 1 2 3",
                hint="TextPanel(decoder, tokenizer=...)",
            ) from None  # fmt: skip

    def _sampling(self) -> list[Strategy]:
        if not self.text_temperature:
            return [Greedy()]
        found: list[Strategy] = [Temperature(self.text_temperature)]
        if self.text_top_k:
            found.append(TopK(self.text_top_k))
        if 0 < self.text_top_p < 1:
            found.append(TopP(self.text_top_p))
        return found

    def _start(self, found: Written, task: Callable[[threading.Event], str], wait: bool) -> None:
        failed: list[Exception] = []

        def work(stop: threading.Event) -> None:
            state = "failed"
            try:
                state = task(stop)
            except Exception as error:
                failed.append(error)
                found.error = str(error)
                if not isinstance(error, GradwrightError):
                    raise
            finally:
                self._pace.flush()
                self.when_shown(self._send_new)
                self.text_state = state

        with self._lock:
            if self._work.busy:
                raise GradwrightError("a text is being written already", hint="stop it first")
            found.run = self._written.run + 1
            self._written = found
            self._looks.clear()
        with self.widget.hold_sync():
            self.text_state, self.text_chosen, self.text_page = "running", -1, "text"
        self.when_shown(self._send_new)
        self._work.start(work)
        if wait:
            self._work.join()
            if failed:
                raise failed[0]

    # -- looking into it -------------------------------------------------------------------------

    def look_at(self, at: int, layer: int | None = None, head: int | None = None) -> Any:
        """Return the weights of attention from token ``at`` to those before it, f32[heads, at+1].

        The page shows those of ``layer`` and ``head`` as colours of the text, and as a map, beside
        the keys and values that the layer keeps of the token. Raises GraphError if there is no such
        token, layer or head.
        """
        tokens = self._until(at + 1)
        layer = self.text_layer if layer is None else layer
        head = self.text_head if head is None else head
        heads = self.interpretation.decoder.config.heads
        if not -1 <= head < heads:
            raise GraphError(f"there is no head {head}", need=f"0 to {heads - 1}, or -1 for all")
        with self._running:
            found = self.interpretation.attends(tokens, layer)
        with self.widget.hold_sync():
            self.text_chosen, self.text_layer, self.text_head = at, layer, head
        self._tell({"at": at, "layer": layer}, *attention(found, head))
        return found.weights[:, -1]

    def why(self, at: int) -> Attribution:
        """Return, and show, what the tokens before token ``at`` added to its logit.

        Raises GraphError if there is no such token, or none before it.
        """
        tokens = self._until(at + 1)
        if len(tokens) < 2:
            raise GraphError("nothing stands before the first token", need="a later one")
        with self._running:
            found = self.interpretation.attributions(tokens[:-1], tokens[-1])
        self.text_chosen = at
        self._tell({"at": at}, *reasons(found))
        return found

    def step_to(self, at: int) -> Stepper:
        """Step through the decoder's graph as it computes what comes at token ``at``.

        Raises GraphError if there is no such token, or none before it.
        """
        tokens = self._until(at)
        if not tokens:
            raise GraphError("nothing stands before the first token", need="a later one")
        feeds = self.interpretation.feeds(tokens)
        stepper = self.widget.part(StepPanel).step_through(feeds, "logits", training=False)
        with self.widget.hold_sync():
            self.text_chosen, self.text_page = at, "step"
        return stepper

    def _until(self, n: int) -> list[int]:
        with self._lock:
            tokens = [token.token for token in self._written.tokens]
        if not 0 <= n <= len(tokens):
            raise GraphError(f"there is no token {n - 1}", need=f"0 to {len(tokens) - 1}")
        return tokens[:n]

    def _tell(self, where: dict[str, Any], content: dict[str, Any], buffers: list[Any]) -> None:
        content = {**content, **where, "run": self._written.run}
        self._looks[content["kind"]] = content, buffers
        self.widget.send(content, buffers)

    # -- what the page asks for ------------------------------------------------------------------

    @handles("start")
    def _on_start(self, _: Any) -> None:
        if self.text_mode == "score":
            self.score(wait=False)
        else:
            self.write()

    @handles("stop")
    def _on_stop(self, _: Any) -> None:
        self.stop_text()

    @handles("look")
    def _on_look(self, content: dict[str, Any]) -> None:
        at, layer, head = (whole_number(content.get(key)) for key in ("at", "layer", "head"))
        self._in_background(lambda: self.look_at(at, layer, head))

    @handles("why")
    def _on_why(self, content: dict[str, Any]) -> None:
        at = whole_number(content.get("at"))
        self._in_background(lambda: self.why(at))

    @handles("step")
    def _on_step(self, content: dict[str, Any]) -> None:
        self.step_to(whole_number(content.get("at")))

    @handles("sync")
    def _on_sync(self, _: Any) -> None:
        for message in self.new_view_messages():
            self.widget.send(*message)

    def _in_background(self, look: Any) -> None:
        self._look_work.join(10)  # a hand that goes along the text asks for many
        self._look_work.start(lambda stop: self.widget.guarded(look))

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return all tokens, and what was looked at last."""
        with self._lock:
            return [self._written.all(), *self._looks.values()]

    def _send_new(self) -> None:
        with self._lock:  # tokens of two threads must leave in their order
            for message in self._written.news():
                self.widget.send(*message)

    # -- views that last -------------------------------------------------------------------------

    def to_table(self) -> str:
        """Return the tokens with their probabilities as an HTML table."""
        readings = self.readings
        if not readings:
            return ""
        table = Score(readings).table()
        return html_table(table.columns, table.rows)


class TextPanel(Host):
    """A language model at work: type a beginning, watch it go on, and ask it why.

    Each token is coloured by its probability; beside it stand the tokens that were as likely, what
    attention looks at, what each token before adds to the logit, and a stepper on the decoder's
    graph. In the mode ``"score"`` a given text is coloured, with log-likelihood and perplexity.

    Args:
        decoder: a model such as ``gw.open(path)`` returns.
        tokenizer: instead of the model's own; without one, prompts are numbers of tokens.
        options: traits, such as ``text_temperature``.

    >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig
    >>> config = DecoderConfig(vocabulary=3, width=8, layers=1, heads=2)
    >>> panel = TextPanel(Decoder(config, tokenizer=CharTokenizer("abc")), text_temperature=0)
    >>> [len(panel.write("ab", wait=True)), panel.text_state]
    [80, 'done']
    >>> panel.why(5).scores.shape, panel.look_at(5).shape
    ((5,), (2, 6))
    """

    module = "text_panel"
    panels = (WritingPanel, StepPanel)
    stop = member_of(WritingPanel, "stop_text")

    def __init__(
        self, decoder: Decoder, *, tokenizer: TextCodec | None = None, **options: Any
    ) -> None:
        super().__init__(
            getattr(decoder, "graph", None), decoder=decoder, tokenizer=tokenizer,
            fetches="logits", **options,
        )  # fmt: skip

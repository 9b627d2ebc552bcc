"""Messages that a host refuses to threads: none is lost, none overtakes another, no work ends."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading

import gradwright as gw
from gradwright_widgets import TrainerPanel
from gradwright_widgets.host.outbox import Outbox

SESSION: contextvars.ContextVar[str] = contextvars.ContextVar("SESSION", default="")


class Shy:
    """Takes messages only in the context of a session, as Shiny does."""

    def __init__(self):
        self.taken = []

    def __call__(self, *message):
        if not SESSION.get():
            raise RuntimeError("outside of a session context")
        self.taken.append((*message, SESSION.get(), threading.get_ident()))


def test_what_a_thread_may_not_send_the_loop_sends_in_order():
    host = Shy()

    async def app():
        SESSION.set("mine")
        outbox = Outbox(host)

        def work():
            for k in range(50):
                outbox.post(k)

        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.001)
        outbox.post("last")

    asyncio.run(app())
    assert [m[0] for m in host.taken] == [*range(50), "last"]
    assert {m[1:] for m in host.taken} == {("mine", threading.get_ident())}


def test_a_mistake_in_the_thread_of_the_widget_is_raised():
    outbox = Outbox(Shy())
    try:
        outbox.post("x")
    except RuntimeError as error:
        assert "session" in str(error)
    else:
        raise AssertionError("swallowed")


def test_without_a_loop_a_lost_message_is_logged(caplog):
    outbox = Outbox(Shy())
    with caplog.at_level(logging.WARNING, logger="gradwright.widgets"):
        thread = threading.Thread(target=outbox.post, args=("x",))
        thread.start()
        thread.join()
    assert "outside of a session context" in caplog.text


def test_a_training_goes_on_where_its_messages_are_refused(monkeypatch):
    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    panel = TrainerPanel(trainer, [{}, {}], epochs=3)
    here = threading.get_ident()

    def send(*message, **more):
        if threading.get_ident() != here:
            raise RuntimeError("outside of a session context")

    monkeypatch.setattr(panel.comm, "send", send)
    panel._receive(panel, {"kind": "training.start", "id": 1}, [])
    panel.wait(10)
    assert (panel.state, trainer.steps_done) == ("finished", 6)
    panel.close()

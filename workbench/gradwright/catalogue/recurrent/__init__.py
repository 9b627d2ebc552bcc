"""Recurrent layers, state-space models and linear recurrences."""

from . import gru as gru
from . import linear as linear
from . import lstm as lstm
from . import rnn as rnn
from . import sru as sru

"""Recurrent layers and state-space models."""

from . import convolution as convolution
from . import delta as delta
from . import gru as gru
from . import lstm as lstm
from . import rnn as rnn
from . import spaces as spaces
from . import sru as sru

"""Recurrent layers and state-space models."""

from . import convolution, delta, gru, lstm, rnn, sru, state_space

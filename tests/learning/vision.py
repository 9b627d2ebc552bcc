import numpy as np, gradwright as gw, time, sys

# Every command of the house. Each makes what it needs in .venv first; nothing is installed elsewhere.
#
#   make lab    open the tour in JupyterLab          make check  ruff, mypy, import order
#   make test   run all tests and docstring examples make smoke  the ten-second test
#   make tour   run the tour into build/tour.html    make bench  print benchmark ratios
#   make docs   the documentation, into build/site   make lite   a site without a server, into build/lite
#   make dist   build wheel and sdist into dist/     make fuzz   10,000 random programs
#   make clean  remove all of this but .venv         make machines  engine tests as on other machines
#   make matrix     the wheel on Pythons 3.11 to 3.13, with the oldest and the newest dependencies
#   make binder     Binder's steps, and what each cell of a tutorial takes
#   make fuzz-formats   damaged files: 20,000 of ONNX, of GGUF, and of safetensors
#   make fuzz-server    20,000 requests to the Jupyter Server extension
#   make oracle-llama   llama.cpp, built here, beside our GGUF files
#   make onnx-wild  ONNX files of 24 packages beside ONNX Runtime
#   make gpu-test   the kernels' numbers on this machine's GPU   make gpu-bench  their times
#   make oracle-adapters   what adapters 1.3 and LyCORIS give, in an environment of their own
#   make oracle-ppo        what TRL 1.12 gives, the last one with PPO
#   make stress-adapters   eight threads load, evict and switch adapters of one model
#   make learn-adapters    adapters of a language model on a shifted domain, three seeds
#   make learn-alignment   methods of alignment on sums that a teacher tells wrong, three seeds

PYTHON ?= python3
BIN := .venv/bin
FRONTEND := notebooks/00_tour.ipynb $(shell find widgets/frontend -maxdepth 1 -type f) $(shell find widgets/frontend/src -type f)
STUBS := workbench/gradwright/ops/index.json
BUNDLES := widgets/gradwright_widgets/static/sources.sha256

.PHONY: lab test check smoke bench fuzz fuzz-formats fuzz-server onnx-wild gpu-test gpu-bench oracle-adapters oracle-ppo learn-adapters learn-alignment stress-adapters machines matrix binder docs lite tour oracle-llama dist clean

lab: .venv/.lab
	$(BIN)/jupyter lab notebooks/00_tour.ipynb

test: .venv/.test $(STUBS)
	$(BIN)/python -m pytest -n 2 --dist loadscope

check: .venv/.dev $(STUBS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

smoke: .venv/.test
	$(BIN)/python -m pytest -q tests/test_tiny.py

bench: .venv/.test
	$(BIN)/python -m tests.benchmarks.engine

gpu-test: .venv/.test $(STUBS)
	$(BIN)/python -m tests.kernels.gpu test

gpu-bench: .venv/.test $(STUBS)
	$(BIN)/python -m tests.kernels.gpu bench

fuzz: .venv/.test
	$(BIN)/python -m tests.fuzz

fuzz-formats: .venv/.test
	$(BIN)/python -m tests.formats.damaged_onnx
	$(BIN)/python -m tests.formats.damaged_weights

fuzz-server: .venv/.test
	$(BIN)/python -m tests.widgets.server.fuzz

# Fetches 200 MB of packages by pip into build/, once.
onnx-wild: .venv/.test
	$(BIN)/python -m tests.formats.wild

# Fetches 20 MB of packages by pip into build/, once; torch is that of .venv.
oracle-adapters: .venv/.oracle
	$(BIN)/python -m tests.adapters.stored

# Fetches 1 MB by pip into build/, once; all that it needs is that of the other tests.
oracle-ppo: .venv/.test
	$(BIN)/python -m tests.align.stored

# Ten minutes of one core; what is done is kept in build/, and not done again.
learn-adapters: .venv/.fast
	$(BIN)/python -m tests.learning.adapters

# Twenty minutes of one core, on prompts that are split anew; what is done is kept in build/.
learn-alignment: .venv/.fast
	$(BIN)/python -m tests.learning.alignment

# Fetches 80 MB by pip and compiles for minutes, once. Without AMX, whose products end the process
# when gcc 12 compiles them; without OpenMP, whose threads would be beside ours.
NO_AMX := -mno-amx-tile -mno-amx-int8 -mno-amx-bf16
build/llama: | .venv/.test
	CMAKE_ARGS="-DGGML_OPENMP=OFF -DCMAKE_C_FLAGS='$(NO_AMX)' -DCMAKE_CXX_FLAGS='$(NO_AMX)'" \
		$(BIN)/python -m pip install --no-deps --no-binary llama-cpp-python \
		--target $@ llama-cpp-python==0.3.36 diskcache

oracle-llama: .venv/.test build/llama
	$(BIN)/python -m tests.models.llama_cpp

stress-adapters: .venv/.test
	$(BIN)/python -m tests.adapters.serving.stress 120

machines: .venv/.test
	$(BIN)/python -m tests.machines

# The page shows widgets as their static pictures, and plots with plotly's own script: both offline.
tour: .venv/.lab
	PLOTLY_RENDERER=plotly_mimetype+notebook $(BIN)/jupyter nbconvert --to html --execute \
		--NbConvertBase.display_data_priority=text/html \
		--NbConvertBase.display_data_priority=image/svg+xml \
		--NbConvertBase.display_data_priority=image/png \
		--NbConvertBase.display_data_priority=text/plain \
		notebooks/00_tour.ipynb --output-dir build --output tour

# The first time runs every notebook, which takes some minutes; later ones what has changed.
docs: .venv/.docs $(STUBS)
	$(BIN)/python notebooks/site/build.py

lite: .venv/.lite
	$(BIN)/python notebooks/lite/build.py

# The wheel on every Python that is here, with the oldest and the newest dependencies; asks the index.
matrix: .venv/.test
	$(BIN)/python -m tests.packaging.matrix

# What Binder would do, and how long each tutorial's cells take there; asks the index.
binder: .venv/.test
	$(BIN)/python -m tests.packaging.binder

dist: .venv/.test
	$(BIN)/python -m hatchling build

clean:
	rm -rf build dist widgets/frontend/node_modules widgets/gradwright_widgets/static widgets/gradwright_widgets/labextension
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find workbench widgets kernels tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra. A changed dependency, a changed frontend source or missing bundles install
# again, which also brings the bundles up to date.
.PRECIOUS: .venv/.%
.venv/.%: pyproject.toml hatch_build.py $(FRONTEND) $(BUNDLES) | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(BUNDLES): ;

# Stubs and the index of ops follow the ops and the face.
$(STUBS): workbench/gradwright/__init__.py $(shell find workbench/gradwright/op workbench/gradwright/ops -name '*.py')
	$(BIN)/python -m gradwright.ops.stubs
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("gradwright needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": run make PYTHON=python3.12, say")'
	$(PYTHON) -m venv .venv

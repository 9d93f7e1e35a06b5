# The front door: every target brings what it needs (Debian packages included, see scripts/install-packages), then
# leaves the work to Meson and Ninja. `make help` lists the targets.

# Where `make install` puts things; empty keeps what the build folder has (/usr/local at first).
PREFIX =
DESTDIR ?=

OPTIONS = $(if $(PREFIX),-Dprefix=$(PREFIX))

# What the whole house needs to go through every door at once is in .ci/run.
.PHONY: all demo test test-slow bench fuzz golden format lint install clean help
.NOTPARALLEL:

all:
	@scripts/install-packages build
	@scripts/build build $(OPTIONS)

demo: all
	@scripts/demo

test:
	@scripts/install-packages build test
	@scripts/build build $(OPTIONS) -Dtests=enabled
	@scripts/install-clients build
	@scripts/run-tests build

test-slow:
	@scripts/install-packages build test slow
	@scripts/build build $(OPTIONS) -Dtests=enabled
	@scripts/run-tests --cases build --setup slow --suite slow

bench: all
	@meson test -C build --no-rebuild --benchmark --verbose

# FUZZ="toml png" chooses targets, SECONDS=3600 the time that each of them gets; FUZZ_SEED=1 repeats a run.
SECONDS = 60
FUZZ =
FUZZ_SEED =
fuzz:
	@scripts/install-packages build fuzz
	@scripts/fuzz $(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(SECONDS) $(FUZZ)

# OUT=DIR says where to (a temporary folder if not), PYTHON=FILE which interpreter has what the generators need.
SEED = 1
OUT =
PYTHON =
golden:
	@$(if $(PYTHON),,scripts/install-packages golden)
	@PYTHON='$(PYTHON)' scripts/golden $(SEED) $(if $(OUT),'$(OUT)')

format:
	@scripts/install-packages lint
	@scripts/format

lint:
	@scripts/install-packages build test lint
	@scripts/lint

install: all
	@meson install -C build --no-rebuild $(if $(DESTDIR),--destdir '$(abspath $(DESTDIR))')

clean:
	rm -rf build build-arm build-asan build-clang build-fuzz build-golden-python build-tsan build-valgrind
	rm -f demo.png demo-apple.png

help:
	@echo 'make             build kuno into build/'
	@echo 'make demo        draw demo.png and demo-apple.png with the model that comes along'
	@echo 'make test        run every test that needs no special hardware'
	@echo 'make test-slow   run the tests that take minutes (a clean machine, among others)'
	@echo 'make bench       measure'
	@echo 'make fuzz        fuzz all parsers; SECONDS=3600 for longer, FUZZ="toml png" for some'
	@echo 'make golden      make golden values with the reference implementations; SEED=7 OUT=/some/folder'
	@echo 'make format      lay out the sources with clang-format'
	@echo 'make lint        clang warnings, clang-tidy, cppcheck, shellcheck, layout, house rules'
	@echo 'make install     install; PREFIX=/usr and DESTDIR=/some/root are honoured'
	@echo 'make clean       remove what the targets above have made'

# The commands that a person types; CMake does the work. `make help` lists the targets.
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
launcher := $(if $(shell command -v ccache 2>/dev/null),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := build
.PHONY: build deps demo test check torch-test nightly slice fuzz unit mutants lint format install deb clean help

build:  ## build the release programs: build/r2ccl and build/libr2ccl.so
	@scripts/install-deps.sh --check
	cmake --preset release $(launcher)
	cmake --build --preset release -j$(JOBS) --target r2ccl_command

deps:  ## install the Debian packages that are missing
	scripts/install-deps.sh

# A second make, because deps may just have installed packages that the build looks for.
demo: deps  ## 4 hosts x 4 NICs: break the network under a running AllReduce
	$(MAKE) build
	build/r2ccl demo $(DEMO_ARGS)

test: deps  ## the release build and its tests; ends with "N passed, N failed"
	@python3 -B scripts/run-tests.py -j $(JOBS) test

check:  ## the tests that `make test` leaves out: sanitizers, seeds, lint; STEPS="asan tsan"
	@scripts/install-deps.sh --lint
	@python3 -B scripts/run-tests.py -j $(JOBS) $(or $(STEPS),check)

torch-test:  ## the torch backend, in build/torch-venv; R2CCL_ALLOW_SKIP=1 skips it without torch
	@scripts/install-deps.sh --check
	@python3 -B scripts/run-tests.py -j $(JOBS) torch

slice:  ## four minutes of the nightly steps: those that are due, or SLICE=name
	@scripts/install-deps.sh --lint
	@python3 -B scripts/nightly.py --write $(SLICE)

nightly:  ## 111,550 simulated seeds, fuzzers, all conditions, a soak, all mutants, huge sizes: hours
	@scripts/install-deps.sh --lint
	@python3 -B scripts/run-tests.py -j $(JOBS) $(or $(STEPS),nightly)

fuzz:  ## each fuzzer for 20 s, from its stored corpus
	@scripts/install-deps.sh --lint
	scripts/run-fuzzers.sh

unit: deps  ## all unit tests, release
	@python3 -B scripts/run-tests.py -j $(JOBS) unit

mutants: deps  ## break each rule in turn: the simulation must find it (1000 seeds each at most)
	scripts/mutants.py -j $(JOBS)

lint:  ## check the format, clang-tidy and the rules of scripts/tidy.py
	@scripts/install-deps.sh --lint
	scripts/lint.sh

format:  ## format every source file in place
	@scripts/install-deps.sh --lint
	scripts/lint.sh --fix-format

install: build  ## install below PREFIX (/usr/local), staged in DESTDIR
	DESTDIR="$(DESTDIR)" cmake --install build --strip --prefix "$(PREFIX)"

deb: build  ## make Debian packages in build/deb: libr2ccl0, libr2ccl-dev, r2ccl-tools
	cpack --config build/CPackConfig.cmake -B build/deb

clean:  ## remove the build directories
	rm -rf build build-dev build-tsan build-fuzz build-mutants

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The only makefile. `make help` lists the targets; V=1 shows commands; SAN=1 builds user space with ASan and UBSan.
# What --version says: this number, and the commit where git knows it. No time of day: the same tree makes the same programs.
VERSION := 0.5.0
COMMIT  := $(shell GIT_CEILING_DIRECTORIES='$(abspath ..)' git --no-optional-locks describe --always --dirty --abbrev=12 \
	--exclude='*' 2>/dev/null)
B       := build
CC      ?= gcc
CLANG   ?= clang
BPFTOOL ?= bpftool
PYTHON  ?= /usr/bin/python3
Q       := $(if $(V),,@)
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum -Wvla -Wformat=2 $(if $(WERROR),-Werror)
HARDEN  := -fPIE -fstack-protector-strong -D_FORTIFY_SOURCE=2
, := ,
SANFLAGS := $(if $(SAN),-fsanitize=address$(,)undefined -fno-omit-frame-pointer)
PKGS    := libbpf libmnl libevent libevent_openssl libnghttp2 libprotobuf-c sqlite3 yaml-0.1 jansson libxxhash libcap libseccomp openssl
PKGCFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS    := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lelf -lz -lm
CFLAGS  ?= -O2 -g
# NEXT=1: as a later build, whose maps are laid out otherwise (tests/next)
NEXT_ABI := $(if $(NEXT),$(B)/include/leasegate/abi.h)
NEXT_INC := $(if $(NEXT),-I$(B)/include)
CPPFLAGS += -D_GNU_SOURCE $(NEXT_INC) -Iinclude -Iagent -I$(B) $(PKGCFLAGS)
ALLCFLAGS = -std=gnu11 $(CFLAGS) $(WARN) $(HARDEN) $(SANFLAGS)
LDFLAGS += -pie -Wl,-z,relro,-z,now $(SANFLAGS)
BPFFLAGS := -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Wno-unused-parameter $(if $(WERROR),-Werror) \
	$(NEXT_INC) -Iinclude -Ibpf -idirafter /usr/include/$(shell uname -m)-linux-gnu

LIB_SRC := $(filter-out agent/main.c,$(wildcard agent/*/*.c))
CTL_SRC := $(filter agent/ctl/%,$(LIB_SRC))
LIB_SRC := $(filter-out $(CTL_SRC),$(LIB_SRC))
TLIB_SRC := $(wildcard tests/lib/*.c)
PROTO   := $(wildcard include/proto/*.proto)
PROTO_C := $(PROTO:include/proto/%.proto=$(B)/proto/%.pb-c.c)
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o) $(PROTO_C:.c=.o)
CTL_OBJ := $(CTL_SRC:%.c=$(B)/%.o)
TLIB_OBJ := $(TLIB_SRC:%.c=$(B)/%.o)
UNIT_SRC := $(wildcard tests/unit/*_test.c tests/unit/*/*_test.c)
UNIT    := $(UNIT_SRC:%.c=$(B)/%)
UNIT_LONG := $(B)/tests/unit/store/etcd_client_test
ROOT_SRC := $(wildcard tests/bpf/*_test.c)
ROOT_T  := $(ROOT_SRC:%.c=$(B)/%)
SIM_SRC := $(wildcard tests/sim/*_test.c)
SIM_T   := $(SIM_SRC:%.c=$(B)/%)
SIM_LONG := $(B)/tests/sim/law_test $(B)/tests/sim/tiers_test
BENCH_PARTS := $(filter-out %.bpf.c,$(wildcard bench/*_*.c))
BENCH_SRC := $(filter-out %.bpf.c $(BENCH_PARTS),$(wildcard bench/*.c))
BENCH   := $(BENCH_SRC:bench/%.c=$(B)/bench-%)
SKEL    := $(B)/leasegate.skel.h
GENERATED := $(SKEL) $(PROTO_C:.c=.h)
NEXT_START := $(B)/next/kern-start

.PHONY: all tests check sim sim-mutants bench lint bpf-check bpf-objects check-long vmtest demo install clean help FORCE
all: $(B)/leasegated $(B)/leasegate ## build the daemon and the tool (default)

$(B)/leasegated: $(B)/agent/main.o $(B)/libleasegate.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)
$(B)/leasegate: $(CTL_OBJ) $(B)/libleasegate.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)
$(B)/libleasegate.a: $(LIB_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

VERSIONED := $(B)/agent/main.o $(B)/agent/ctl/leasegate.o
VERSION_TEXT := $(VERSION)$(if $(COMMIT),+$(COMMIT))
$(VERSIONED): CPPFLAGS += -DLG_VERSION='"$(VERSION_TEXT)"'
$(VERSIONED): $(B)/version
ifneq ($(VERSION_TEXT),$(shell cat $(B)/version 2>/dev/null))
.PHONY: $(B)/version
endif
$(B)/version:
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(VERSION_TEXT)' > $@

$(B)/include/leasegate/abi.h: tests/next/abi.py $(wildcard include/leasegate/*)
	$(Q)mkdir -p $(@D) && cp include/leasegate/* $(@D)/
	$(Q)$(PYTHON) tests/next/abi.py include/leasegate/abi.h > $@.tmp && mv $@.tmp $@
$(B)/leasegate.bpf.o: bpf/leasegate.bpf.c $(wildcard bpf/*.h include/leasegate/*) $(NEXT_ABI)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -c $< -o $@
BPF_OBJECTS := $(foreach c,clang-14 clang-19,$(B)/$(c)/leasegate.bpf.o)
$(BPF_OBJECTS): $(B)/%/leasegate.bpf.o: bpf/leasegate.bpf.c $(wildcard bpf/*.h include/leasegate/*)
	$(Q)mkdir -p $(@D)
	$(Q)$* $(BPFFLAGS) -c $< -o $@
$(SKEL): $(B)/leasegate.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name leasegate_bpf > $@.tmp && mv $@.tmp $@
$(B)/%.skel.h: $(B)/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$(*F))_bpf > $@.tmp && mv $@.tmp $@
$(B)/bench/%.bpf.o: bench/%.bpf.c $(wildcard bpf/*.h bench/*.h include/leasegate/*)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -Ibench -c $< -o $@
$(B)/proto/%.pb-c.c $(B)/proto/%.pb-c.h &: include/proto/%.proto
	$(Q)mkdir -p $(@D)
	$(Q)protoc-c --proto_path=include/proto --c_out=$(B)/proto $<
$(B)/proto/%.pb-c.o: $(B)/proto/%.pb-c.c
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(CFLAGS) $(HARDEN) $(SANFLAGS) -c $< -o $@
$(B)/%.o: %.c | $(GENERATED)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(if $(filter tests/% bench/%,$<),-I. -Ibpf) -MMD -MP $(ALLCFLAGS) -c $< -o $@
-include $(shell find $(B) -name '*.d' 2>/dev/null)

$(B)/tests/%_test: $(B)/tests/%_test.o $(TLIB_OBJ) $(B)/libleasegate.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/bpf/verifier_test.o: CPPFLAGS += -DLG_CLANG=$(shell $(CLANG) -dumpversion 2>/dev/null | cut -d. -f1)
$(B)/tests/unit/ctl/plot_test: $(B)/agent/ctl/plot.o
# What starts an instance as another build would, for the tests of takeovers.
$(B)/kern-start: $(B)/tests/next/start.o $(patsubst %.c,$(B)/%.o,$(wildcard agent/base/*.c agent/rules/*.c agent/kern/*.c))
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)
$(NEXT_START): FORCE
	$(Q)$(MAKE) --no-print-directory B=$(B)/next NEXT=1 $@
$(B)/tests/bpf/kern_life_test: | $(NEXT_START)
BENCH_SKELS := $(patsubst bench/%.bpf.c,$(B)/bench/%.skel.h,$(wildcard bench/*.bpf.c))
$(BENCH_SRC:%.c=$(B)/%.o) $(BENCH_PARTS:%.c=$(B)/%.o): | $(BENCH_SKELS)
$(B)/bench-%: $(B)/bench/%.o $(TLIB_OBJ) $(B)/libleasegate.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
$(B)/bench-lease: $(patsubst %.c,$(B)/%.o,$(filter bench/lease_%,$(BENCH_PARTS)))
$(B)/bench-fastpath: $(patsubst %.c,$(B)/%.o,$(filter bench/fastpath_%,$(BENCH_PARTS)))
$(B)/bench-fastpath $(B)/bench-peers: $(B)/bench/bench_rules.o
$(B)/bench-lease-scale: $(patsubst %.c,$(B)/%.o,$(filter bench/scale_%,$(BENCH_PARTS)))
.SECONDARY:

build/etcd/etcd:
	$(Q)scripts/fetch-etcd
check: $(UNIT) build/etcd/etcd ## build and run the unit tests
	$(Q)scripts/run-tests $(filter-out $(UNIT_LONG),$(UNIT))
bpf-check: all $(ROOT_T) ## run the BPF rows on the running kernel (root)
	$(Q)scripts/run-tests $(ROOT_T)
sim: $(SIM_T) ## run the deterministic simulation of the lease core (SEEDS=200)
	$(Q)SEEDS=$(or $(SEEDS),200) JOBS=$(or $(JOBS),2) scripts/run-tests $(SIM_LONG) $(filter-out $(SIM_LONG),$(SIM_T))
sim-mutants: $(SIM_T) ## what the simulation must find: mistakes put into the lease core, one at a time (MUTANTS="NAME...")
	$(Q)B='$(B)' CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' ALLCFLAGS='$(ALLCFLAGS)' LDFLAGS='$(LDFLAGS)' TLIB_OBJ='$(TLIB_OBJ)' LIBS='$(LIBS)' \
		JOBS='$(JOBS)' scripts/sim-mutants $(MUTANTS)
bench: $(BENCH) ## build the benches: build/bench-*, each prints JSON lines
bpf-objects: $(BPF_OBJECTS) ## compile the BPF object with each supported compiler
tests: all $(UNIT) $(ROOT_T) $(SIM_T) $(BENCH) ## build everything there is
lint: $(GENERATED) ## clang-format, cppcheck, shellcheck, one-way includes, ABI layout
	$(Q)scripts/lint
demo: ## run the demo on real packets (root)
	$(Q)scripts/demo
vmtest: all $(ROOT_T) ## boot Debian's 6.1 and 6.12 kernels and test the programs there
	$(Q)vmtest/run
check-long: tests ## the long runs: 3,000 simulated seeds, the guests, both compilers
	$(Q)scripts/check-long
PREFIX ?= /usr/local
install: all ## install the binaries and systemd's units under PREFIX (/usr/local)
	install -D -m 755 $(B)/leasegated $(DESTDIR)$(PREFIX)/sbin/leasegated
	install -D -m 755 $(B)/leasegate $(DESTDIR)$(PREFIX)/bin/leasegate
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in deploy/systemd/*.service; do \
		sed 's|/usr/local/|$(PREFIX)/|' "$$unit" >"$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}" || exit 1; \
	done
clean: ## remove build/
	$(Q)rm -rf $(B)
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

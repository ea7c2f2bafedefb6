/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The inside of the simulation: what its files share. sim.c has time and traffic, sim_net.c the messages, sim_host.c, sim_region.c and
 * sim_home.c what roles do around the objects of agent/lease, sim_slots.c who owns the key's slot, sim_faults.c what goes wrong,
 * sim_check.c the laws. */
#pragma once

#include <math.h>

#include "lease/claims.h"
#include "tests/lib/sim.h"
#include "tests/lib/sim_share.h"

#define MS 1000000ull
#define S (1000 * MS)
#define SIM_HOMES 3	/* by region list 1, by region list 2, and a deposed or former one */
#define SIM_DEPOSED 2

enum event_kind { EV_ARRIVAL,
		  EV_HOST_TICK,
		  EV_REGION_TICK,
		  EV_HOME_TICK,
		  EV_SECOND,
		  EV_MESSAGE,
		  EV_DRAIN,
		  EV_CONNECT_HOST,
		  EV_CONNECT_REGION,
		  EV_FAULT,
		  EV_FAULT_OVER,
		  EV_THAW,
		  EV_NEW_LIST,
		  EV_MOVE,
		  EV_KEEPALIVE,
		  EV_COMMIT,
		  EV_COMMIT_LATE,
		  EV_COMMITTED };

enum message_kind { MSG_ASK, MSG_GRANT, MSG_MARK };

struct message {
	enum message_kind kind;
	bool of_region;		/* the holder is a region; else a host */
	uint32_t holder;
	uint32_t list;		/* version of the region list that the sender has */
	uint32_t incarnation;
	uint32_t to_process;	/* the receiver's life it was sent to */
	uint32_t epoch;		/* MSG_MARK */
	uint64_t forgot_ms;	/* MSG_MARK: remembers so far back; 0 ever */
	struct lg_ask *ask;
	struct lg_grant grant;
	/* A home's write, to the store of region list holder + 1 */
	struct lg_escrow_mark mark;
	bool has_mark;
	bool covered;
	bool is_lost;		/* its answer is */
	bool is_durable;	/* as the answer says */
	uint32_t object;
	uint64_t revision;
};

/* What a home's writes have made durable. */
struct sim_store {
	struct lg_escrow_mark mark;
	bool has_mark;
	bool covered;		/* nothing that counts was lent beyond what is marked */
	uint64_t revision;
	uint32_t owner;		/* the process that leads */
};

struct event {
	uint64_t at_ns;
	uint64_t number;
	enum event_kind kind;
	uint32_t index;
	struct message *msg;
};

struct link {
	bool up;
	uint32_t n_cuts;
};

struct clock {
	int64_t ppm;
	uint64_t offset_ns;
	int64_t wall_s;		/* what the wall clock is off by; nothing but the choice of epochs and incarnations looks at it */
};

struct totals {
	uint64_t granted_tok;
	uint64_t spent_tok;	/* by traffic and back by the agent */
	uint64_t returned_tok;
	uint64_t denied_tok;
};

struct bucket {
	struct totals total;
	struct totals base;	/* at the start of the generation */
	uint64_t expires_ns;
	uint64_t low_water_tok;
	uint64_t announced_ns;
	bool made;		/* else it comes with what the key may start with */
	uint64_t seen_ns;
	uint32_t generation;
	uint32_t epoch;
};

struct node_host {
	struct sim *sim;
	uint32_t index;
	uint32_t region;	/* its lessor */
	uint32_t site;		/* the region it is in: the same, or the one above */
	struct clock clock;
	struct link link;
	bool powered;
	bool gone;
	bool agent;
	uint32_t process;
	uint32_t incarnation;
	uint64_t made_ns;	/* when the maps were made, if not at the start */
	struct bucket bucket;
	uint64_t drain_ns;	/* when all that is left is to be spent */
	bool misread;		/* the last reading was */
	struct lg_upstream upstream;
	struct lg_holding holding;
	struct lg_lessee *lessee;
	uint64_t due_ns;
	struct sim_share *share;	/* NULL: none */
	uint64_t share_end_ns;		/* the end of the lease that share_tok came after */
	uint64_t share_tok;
};

struct node_region {
	struct sim *sim;
	uint32_t index;
	struct node_region *above;	/* its lessor; NULL: the key's home */
	bool lends_to_regions;
	uint32_t list;			/* version of the region list it has */
	bool with_former;		/* it takes the former owner of the key's slot for its home */
	struct clock clock;
	struct link link;
	bool running;
	uint32_t process;
	uint32_t epoch;
	bool listed[SIM_HOSTS_MAX];	/* holders, durably */
	uint64_t unknown_until_ns;	/* holders of before a lost store may hold, or remember spending, until then */
	struct lg_succession *succession;
	struct lg_lessor lessor;	/* of this life, towards its holders */
	struct lg_upstream upstream;
	struct lg_holding holding;
	struct lg_region *region;
	uint64_t due_ns;
	uint64_t pool_tok;		/* as last looked at */
	uint64_t expires_ns;
};

struct node_home {
	struct sim *sim;
	struct clock clock;		/* only its wall clock is off: this is the home's time that laws are kept on */
	uint32_t list;			/* version of the region list it has */
	bool refuses;			/* by that list it is not the home */
	bool is_former;			/* its slot goes, or has gone, to another process */
	bool has_given;			/* in good order */
	struct lg_presence here;	/* its session is its process */
	bool running;
	uint32_t process;
	uint32_t epoch;
	bool listed[SIM_REGIONS_MAX];
	bool unsettled;
	uint64_t unknown_until_ns;
	struct lg_succession *succession;
	struct lg_lessor *lessor;	/* of this life; its home may stand still while the next is there */
	struct lg_home *home;
	uint64_t due_ns;
	uint64_t granted_tok;	/* when last checked */
	/* what it knows of its store */
	uint64_t started_ns;
	uint64_t revision;
	bool was_covered, covers;
	bool has_found;			/* an earlier life left a mark, which is nobody's yet */
	struct lg_escrow_mark found;
	bool wants, committing;
	uint32_t object;		/* counts lives of `home` */
};

struct fault {
	enum sim_fault_kind kind;
	uint32_t index;
	uint64_t for_ns;
};

struct sim {
	struct sim_config c;
	struct sim_result r;
	uint64_t now_ns;
	uint64_t rand;
	struct event *heap;
	size_t n_heap, cap_heap;
	uint64_t n_events;
	struct node_host hosts[SIM_HOSTS_MAX];
	struct node_region regions[SIM_REGIONS_MAX];
	struct node_home homes[SIM_HOMES];
	uint32_t home;			/* the one that is, by the newest region list */
	uint32_t n_processes;
	uint32_t n_regions;		/* of both tiers */
	uint32_t n_hosts;
	struct fault faults[SIM_FAULTS_MAX];
	uint32_t n_faults;
	struct sim_store stores[2];	/* of the homes by region list 1 and 2 */
	uint64_t store_rand;
	bool store_full;
	struct sim_meter law, perfect, all;
	uint32_t *bin_admitted, *bin_perfect;
	uint32_t *bin_region[SIM_REGIONS_MAX];
	size_t n_bins;
};

/* Time and chance: sim.c */
uint64_t sim_exponential_ns(struct sim *s, double mean_ns);
uint64_t sim_local_ns(const struct sim *s, const struct clock *clock);
/* When that clock shows local_ns, or a little later. */
uint64_t sim_true_ns(const struct clock *clock, uint64_t local_ns);
/* The epoch or incarnation of a life that begins now: newer than the one before, and no older than the wall clock. */
uint32_t sim_new_life(const struct sim *s, const struct clock *clock, uint32_t before);
/* A holder's new life knows no lessor. */
void sim_upstream_init(struct sim *s, struct lg_upstream *u, struct lg_holding *h);
void sim_push(struct sim *s, uint64_t at_ns, enum event_kind kind, uint32_t index, struct message *msg);

/* The laws: sim_check.c. The first that is broken ends the run. */
void sim_broken(struct sim *s, const char *what, int64_t by);
void sim_check_potential(struct sim *s);
void sim_check_home(struct node_home *n);
/* A host's share let cost_tok through. */
void sim_check_share(struct node_host *h, uint64_t cost_tok);
void sim_check_region(struct node_region *n);
uint64_t sim_spendable_tok(const struct sim *s);

/* The network: sim_net.c */
void sim_message_free(struct message *m);
struct message *sim_message_copy(const struct message *m);
/* What is sent is copied; the message stays the caller's. */
void sim_transmit(struct sim *s, struct message *m);
void sim_transmit_ask(struct sim *s, struct message *m, const struct lg_ask *ask);
void sim_transmit_grant(struct sim *s, struct message *m, const struct lg_grant *grant);
void sim_deliver(struct sim *s, const struct message *m);

/* A host: sim_host.c */
void sim_host_tick(struct node_host *h);
/* A bucket that nobody uses leaves the table, as early as it may. */
void sim_host_reap(struct node_host *h);
void sim_host_grant(struct node_host *h, const struct message *m);
/* All that is left is spent now. */
void sim_host_drain(struct node_host *h);
/* Says that it holds nothing. */
void sim_host_mark(struct node_host *h);
bool sim_host_admits(struct node_host *h, uint64_t cost_tok);
/* What its lease refused may pass by the rule's fallback. */
bool sim_host_falls_back(struct node_host *h, uint64_t cost_tok);
/* Traffic of that cost was let through now. */
void sim_admitted(struct sim *s, uint64_t cost_tok);
void sim_host_connect(struct node_host *h);
void sim_host_disconnect(struct node_host *h, bool again);
void sim_host_power_off(struct node_host *h);
void sim_agent_stop(struct node_host *h);
void sim_agent_start(struct node_host *h);

/* A region: sim_region.c. Above it is the home or another region. */
void sim_region_tick(struct node_region *n);
void sim_region_ask(struct node_region *n, const struct message *m);
void sim_region_grant(struct node_region *n, const struct message *m);
void sim_region_mark(struct node_region *n);
void sim_region_connect(struct node_region *n);
void sim_region_disconnect(struct node_region *n, bool again);
void sim_region_stop(struct node_region *n);
void sim_region_start(struct node_region *n);
void sim_region_lives(struct node_region *n);
void sim_region_knows_nothing(struct node_region *n);
/* With one key a holder has named all it holds by any message of this epoch, or by saying that there is none. */
void sim_synced(struct lg_succession *succession, const struct message *m, uint32_t epoch, uint64_t now_ns);
/* Of a new life: who is on the durable list, and somebody who never comes while an unknown past may hold something. */
struct lg_succession *sim_succession(uint64_t since_ns, const bool *listed, size_t n, bool unknown);
/* The longest time after which a lease of now is over and what it spent has left the window. */
uint64_t sim_memory_ns(const struct sim *s);

/* The home: sim_home.c */
void sim_home_ask(struct node_home *n, const struct message *m);
void sim_home_tick(struct node_home *n);
void sim_home_stop(struct node_home *n);
void sim_home_start(struct node_home *n);
void sim_home_lives(struct node_home *n);
/* Nothing of the key counts any more. */
void sim_home_forget(struct node_home *n);
/* Its store is gone, or it never was the home: whoever may hold something is not known. */
void sim_home_knows_nothing(struct node_home *n);
/* It stands still, as far as anybody can tell for good. */
void sim_home_freeze(struct node_home *n);

/* What its mark became. Returns when it is due. */
uint64_t sim_home_marked(struct node_home *n, bool is_durable);

/* Who owns the key's slot: sim_slots.c */
bool sim_slot_is_owned(const struct node_home *n);
bool sim_slot_fault_begins(struct sim *s, const struct fault *f);
/* Another process claims it. */
void sim_slot_claimed(struct sim *s, const struct fault *f);
/* A region learns who owns it now. */
void sim_slot_follow(struct node_region *n);

/* Its store: sim_escrow.c */
void sim_escrow_begin(struct node_home *n);
/* It ends, in half of all cases in order: what is not used is given back. */
void sim_escrow_end(struct node_home *n);
void sim_escrow_lost(struct node_home *n);
/* What is due is written. */
void sim_escrow_tick(struct node_home *n);
void sim_escrow_second(struct node_home *n);
/* A write arrives; a write is answered. */
void sim_commit(struct sim *s, const struct message *m, bool is_late);
void sim_committed(struct sim *s, const struct message *m);
void sim_check_mark(struct sim *s);

/* What goes wrong: sim_faults.c */
void sim_fault_begins(struct sim *s, uint32_t number);
void sim_fault_over(struct sim *s, uint32_t number);
void sim_keepalive_fails(struct sim *s, uint32_t number);
void sim_thaw(struct sim *s);
void sim_new_list(struct node_region *n);

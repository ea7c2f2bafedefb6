// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The way to the homes of keys. Of the slots that this server owns it is the one that speaks for the region, at the server that owns the
 * same slot at the home. When the home is our own region that is this very server.
 */
#include "role/server.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "role/status.h"

static struct lg_slot_set owned_of(const struct lg_server *s, const struct lg_slot_set *slots)
{
	struct lg_slot_set owned = { 0 };

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (s->slots.v[slot].owned && (!slots || lg_slot_set_has(slots, slot)))
			lg_slot_set_add(&owned, slot);
	return owned;
}

/* These have an owner at the home and are ours: it hears in which life, what the keys hold, and later that this was all. */
static void begin(struct lg_server_home *home, const struct lg_slot_set *slots)
{
	struct lg_server *s = home->server;
	uint64_t epochs[LG_KEY_SLOTS] = { 0 };
	struct lg_slot_part parts[LG_KEY_SLOTS];
	size_t n;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(slots, slot) && home->upstreams[slot].up)
			epochs[slot] = s->slots.v[slot].epoch;
	n = lg_slot_parts(epochs, parts);
	for (size_t i = 0; i < n; i++) {
		if (home->replicas)
			lg_replicas_live(home->replicas, &parts[i].slots, parts[i].number);
		for (size_t w = 0; w < N_ELEMS(home->unsynced.w); w++)
			home->unsynced.w[w] |= parts[i].slots.w[w];
		lg_server_keys_up(home, &parts[i].slots);
	}
}

void lg_homes_slots(struct lg_server *s, const struct lg_slot_set *slots, uint32_t epoch)
{
	struct lg_server_holder *self = s->self_holder;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		if (!lg_slot_set_has(slots, slot))
			continue;
		lg_upstream_up(&s->homes[s->self].upstreams[slot], epoch);
		self->lives->n_lives[slot]++;
		self->lives->incarnation[slot] = epoch;
	}
	for (size_t i = 0; i < s->config.n_regions; i++)
		begin(&s->homes[i], slots);
	lg_homes_sync(s);
}

void lg_homes_slots_end(struct lg_server *s, const struct lg_slot_set *slots)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(slots, slot))
			lg_upstream_down(&s->homes[s->self].upstreams[slot]);
	for (size_t i = 0; i < s->config.n_regions; i++)
		for (size_t w = 0; w < N_ELEMS(slots->w); w++)
			s->homes[i].unsynced.w[w] &= ~slots->w[w];
}

/* Slots of which we know by now all that our own hosts hold. */
static void sync_home(struct lg_server_home *home)
{
	struct lg_server *s = home->server;
	struct lg_slot_set done = { 0 };

	if (lg_slot_set_is_empty(&home->unsynced))
		return;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		const struct lg_server_slot *v = &s->slots.v[slot];

		if (lg_slot_set_has(&home->unsynced, slot) && v->owned && home->upstreams[slot].up &&
		    (!v->hosts || !lg_succession_missing(v->hosts)))
			lg_slot_set_add(&done, slot);
	}
	if (lg_slot_set_is_empty(&done))
		return;
	for (size_t w = 0; w < N_ELEMS(done.w); w++)
		home->unsynced.w[w] &= ~done.w[w];
	if (home->replicas) {
		lg_replicas_synced(home->replicas, &done, lg_status_forgot_age_ms(s->hosts.forgot_ns, lg_clock_now_ns()));
		return;
	}
	lg_server_local_pump(s);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		if (!lg_slot_set_has(&done, slot) || !s->slots.v[slot].regions)
			continue;
		lg_succession_forgot(s->slots.v[slot].regions, s->hosts.forgot_ns);
		lg_succession_synced(s->slots.v[slot].regions, s->self_holder->index);
	}
}

void lg_homes_sync(struct lg_server *s)
{
	for (size_t i = 0; i < s->config.n_regions; i++)
		sync_home(&s->homes[i]);
}

/* ---- streams ---- */

static bool on_welcome(void *arg, const struct lg_lease_welcome *welcome)
{
	struct lg_server_home *home = arg;
	const char *name = home->server->names[home->region];

	/* Its epochs are not those of the home we meant. */
	if (strcmp(welcome->lessor, name) != 0) {
		snprintf(home->why, sizeof(home->why), "its address leads to region %s: see the addresses in the list", welcome->lessor);
		lg_error("home %s: %s", name, home->why);
		return false;
	}
	lg_info("home %s%s%s is up, epoch %u", welcome->lessor, welcome->replica[0] ? ", server " : "", welcome->replica, welcome->epoch);
	home->epoch = welcome->epoch;
	home->n_connects++;
	home->why[0] = '\0';
	return true;
}

static void on_slots(void *arg, const struct lg_slot_set *up)
{
	struct lg_server_home *home = arg;
	struct lg_slot_set owned = owned_of(home->server, up);

	begin(home, &owned);
	lg_homes_sync(home->server);
	lg_server_flush(home->server);
}

static void on_down(void *arg, const char *why)
{
	struct lg_server_home *home = arg;

	lg_warn("home %s: %s; its keys drain what is leased", home->server->names[home->region], why);
	snprintf(home->why, sizeof(home->why), "%s", why);
}

static void on_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	struct lg_server_home *home = arg;

	if (lg_slots_are_ours(home->server))
		lg_server_grant(home, key, grant);
}

static void on_batch_end(void *arg)
{
	struct lg_server_home *home = arg;

	lg_server_flush(home->server);
}

int lg_homes_start(struct lg_server *s, struct lg_complaint *c)
{
	static const struct lg_replicas_handlers handlers = { on_welcome, on_slots, on_down, on_grant, on_batch_end,
							      lg_server_rules_wanted, lg_server_rules_whole, NULL };
	struct lg_lease_hello hello = { .is_region = true, .incarnation = 1, .regions_version = s->config.regions_version };
	struct lg_replicas_options options = { .hello = &hello, .tls = s->secure.tls };
	int r = 0;

	if (!lg_server_regions_list(s, &options.regions))
		options.regions.version = 0;
	snprintf(hello.holder, sizeof(hello.holder), "%s", s->config.region);
	snprintf(hello.region, sizeof(hello.region), "%s", s->config.region);
	snprintf(hello.replica, sizeof(hello.replica), "%s", s->slots.name);
	for (size_t i = 0; r == 0 && i < s->config.n_regions; i++) {
		options.address = lg_config_dial(&s->config, s->names[i]);
		options.region = s->names[i];
		if (i != s->self)
			r = lg_replicas_new(s->loop, &options, &handlers, &s->homes[i], s->homes[i].upstreams, &s->homes[i].replicas, c);
	}
	if (r == 0)
		lg_server_rules_say(s);
	return r;
}

void lg_homes_stop(struct lg_server *s)
{
	for (size_t i = 0; i < s->config.n_regions; i++)
		s->homes[i].replicas = lg_replicas_free(s->homes[i].replicas);
}

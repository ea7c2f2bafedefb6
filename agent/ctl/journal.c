// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/admin.h"

#define TIMEOUT_MS 10000

static uint64_t number_of(const json_t *o, const char *field)
{
	json_int_t n = json_integer_value(json_object_get(o, field));

	return n > 0 ? (uint64_t)n : 0;
}

/* A daemon that ends while it is asked breaks off in any of these ways. */
static bool is_silence(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -EPIPE || r == -ECONNRESET || r == -ETIMEDOUT;
}

static int ask(const struct lg_ctl *ctl, const json_t *filter, uint64_t from, json_t **ret_reply, struct lg_complaint *c)
{
	json_t *request = filter ? json_deep_copy(filter) : json_object();
	char path[512];
	int r;

	json_object_set_new(request, "cmd", json_string("journal"));
	json_object_set_new(request, "from", json_integer((json_int_t)from));
	snprintf(path, sizeof(path), "%s/region.sock", ctl->run_dir);
	r = lg_admin_call(path, request, TIMEOUT_MS, ret_reply, c);
	json_decref(request);
	return r;
}

int lg_ctl_journal_page(const struct lg_ctl *ctl, const json_t *filter, uint64_t from, struct lg_ctl_page *ret_page,
			struct lg_complaint *c)
{
	json_t *reply = NULL;
	const char *why;
	int r;

	r = ask(ctl, filter, from, &reply, c);
	if (r == -ENOENT || r == -ECONNREFUSED)
		lg_complain(c, "instance %s: no region server is running (nothing at %s)", ctl->instance, ctl->run_dir);
	if (r < 0)
		return is_silence(r) ? LG_CTL_JOURNAL_SILENT : LG_CTL_JOURNAL_REFUSED;
	*ret_page = (struct lg_ctl_page){ .reply = reply,
					  .region = json_string_value(json_object_get(reply, "region")),
					  .records = json_object_get(reply, "records"),
					  .next = number_of(reply, "next"),
					  .end = number_of(reply, "end"),
					  .first = number_of(reply, "first"),
					  .first_ms = number_of(reply, "first_ms") };
	if (json_is_true(json_object_get(reply, "ok")) && ret_page->region && json_is_array(ret_page->records) && ret_page->next >= from)
		return 0;
	why = json_string_value(json_object_get(reply, "error"));
	lg_complain(c, "%s", why ? why : "the region server's answer makes no sense");
	r = json_is_true(json_object_get(reply, "starting")) ? LG_CTL_JOURNAL_SILENT : LG_CTL_JOURNAL_REFUSED;
	if (ret_page->end)
		lg_complain(c, "the journal has no record %" PRIu64 " yet, its next one is %" PRIu64 ": is it the one you mean?", from - 1,
			    ret_page->end);
	json_decref(reply);
	*ret_page = (struct lg_ctl_page){ 0 };
	return r;
}

void lg_ctl_page_fini(struct lg_ctl_page *page)
{
	json_decref(page->reply);
	*page = (struct lg_ctl_page){ 0 };
}

const char *lg_ctl_time(uint64_t unix_ms, char buf[LG_CTL_TIME_LEN])
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(buf, LG_CTL_TIME_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, LG_CTL_TIME_LEN - n, ".%03uZ", (unsigned int)(unix_ms % 1000));
	return buf;
}

static const char *cause_text(const char *cause)
{
	static const struct {
		const char *cause, *text;
	} all[] = {
		{ "overload", "they came faster than they could be written" },
		{ "error", "the disk refused them" },
		{ "reboot", "the machine went down before they were on the disk; the number is the most it can be" },
		{ "aged", "they are older than what journal.size keeps" },
		{ "damaged", "their file cannot be read" },
	};

	for (size_t i = 0; i < N_ELEMS(all); i++)
		if (cause && strcmp(all[i].cause, cause) == 0)
			return all[i].text;
	return "for an unknown cause";
}

void lg_ctl_gap_text(const json_t *gap, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRIu64 " records are missing: %s", number_of(gap, "gap"),
		 cause_text(json_string_value(json_object_get(gap, "cause"))));
}

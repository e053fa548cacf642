/* roll_decide.c - the decision whether a run starts, and the table with the reasons against it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/cluster/roll.h"

/* The entries to decide on, and the problems found, in one line. */
typedef struct roll {
  yk_roll_entry *const *entries; /* [n] NULL: missing */
  int n;
  yk_strbuf *report;  /* NULL: only the finding counts */
  yk_strbuf findings; /* separated by "; " */
} roll;

static void find(roll *r, const char *finding)
{
  if (r->findings.length > 0) yk_strbuf_append_str(&r->findings, "; ");
  yk_strbuf_append_str(&r->findings, finding);
}

static const yk_roll_fact *fact_of(const yk_roll_entry *entry, const char *name)
{
  for (int i = 0; i < entry->n_facts; i++)
    if (strcmp(entry->facts[i].name, name) == 0) return &entry->facts[i];
  return NULL;
}

static const char *value_of(const yk_roll_entry *entry, const char *name)
{
  const yk_roll_fact *fact = fact_of(entry, name);
  return fact ? fact->value : "(not reported)";
}

/* Writes "process 1" or "processes 0, 2": the processes whose value of a fact is `value`. Returns their number. */
static int list_holders(const roll *r, const char *name, const char *value, yk_strbuf *out)
{
  int n = 0;
  for (int p = 0; p < r->n; p++) n += r->entries[p] && strcmp(value_of(r->entries[p], name), value) == 0;
  yk_strbuf_append_str(out, n == 1 ? "process" : "processes");
  const char *between = " ";
  for (int p = 0; p < r->n; p++) {
    if (!r->entries[p] || strcmp(value_of(r->entries[p], name), value) != 0) continue;
    yk_strbuf_append_fmt(out, "%s%d", between, p);
    between = ", ";
  }
  return n;
}

/* Whether process p is the first that has its value. */
static bool is_first_holder(const roll *r, const char *name, int p)
{
  for (int q = 0; q < p; q++)
    if (r->entries[q] && strcmp(value_of(r->entries[q], name), value_of(r->entries[p], name)) == 0) return false;
  return true;
}

static int count_values(const roll *r, const char *name)
{
  int n = 0;
  for (int p = 0; p < r->n; p++) n += r->entries[p] && is_first_holder(r, name, p);
  return n;
}

/* One line for each value of a fact. */
static void show_values(roll *r, const yk_roll_fact *fact, int n_values)
{
  const bool differs = fact->rule == YK_FACT_EQUAL && n_values > 1;
  if (r->report) yk_strbuf_append_fmt(r->report, "%s%s\n", fact->name, differs ? " DIFFERS" : "");
  yk_strbuf finding = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&finding, "%s differs", fact->name);
  for (int p = 0; p < r->n; p++) {
    if (!r->entries[p] || !is_first_holder(r, fact->name, p)) continue;
    const char *value = value_of(r->entries[p], fact->name);
    yk_strbuf holders = YK_STRBUF_INIT;
    list_holders(r, fact->name, value, &holders);
    yk_strbuf_append_fmt(&finding, "%s%.40s (%s)", p == 0 ? ": " : ", ", value, holders.data ? holders.data : "");
    if (r->report) yk_strbuf_append_fmt(r->report, "  %s: %s\n", holders.data ? holders.data : "", value);
    yk_strbuf_free(&holders);
  }
  if (differs && finding.data) find(r, finding.data);
  yk_strbuf_free(&finding);
}

/* Whether a text of words separated by spaces has the word [n_bytes]. */
static bool has_word(const char *text, const char *word, size_t n_bytes)
{
  while (*text) {
    size_t length = strcspn(text, " ");
    if (length == n_bytes && memcmp(text, word, n_bytes) == 0) return true;
    text += length + (text[length] == ' ');
  }
  return false;
}

static void check_exclusive_word(roll *r, const char *name, int p, const char *word, size_t n_bytes)
{
  for (int q = 0; n_bytes > 0 && q < p; q++) {
    const yk_roll_fact *theirs = r->entries[q] ? fact_of(r->entries[q], name) : NULL;
    if (!theirs || !has_word(theirs->value, word, n_bytes)) continue;
    char finding[YK_ERR_MESSAGE_BYTES];
    snprintf(finding, sizeof finding, "%s: %.*s is used by processes %d and %d", name, n_bytes < 64 ? (int)n_bytes : 64,
             word, q, p);
    find(r, finding);
    if (r->report) yk_strbuf_append_fmt(r->report, "  CONFLICT: %s\n", finding);
  }
}

static void check_exclusive(roll *r, const char *name)
{
  for (int p = 1; p < r->n; p++) {
    const yk_roll_fact *fact = r->entries[p] ? fact_of(r->entries[p], name) : NULL;
    for (const char *at = fact ? fact->value : ""; *at;) {
      size_t length = strcspn(at, " ");
      check_exclusive_word(r, name, p, at, length);
      at += length + (at[length] == ' ');
    }
  }
}

/* A fact that no earlier entry has. The report omits facts that must be equal and are equal. */
static void check_fact(roll *r, const yk_roll_fact *fact)
{
  int n_values = count_values(r, fact->name);
  if (n_values > 1)
    show_values(r, fact, n_values);
  else if (fact->rule != YK_FACT_EQUAL && fact->value[0] && r->report)
    yk_strbuf_append_fmt(r->report, "%s: %s\n", fact->name, fact->value);
  if (fact->rule == YK_FACT_EXCLUSIVE) check_exclusive(r, fact->name);
}

static bool is_named_before(const roll *r, int p, const char *name)
{
  for (int q = 0; q < p; q++)
    if (r->entries[q] && fact_of(r->entries[q], name)) return true;
  return false;
}

static void check_facts(roll *r)
{
  for (int p = 0; p < r->n; p++)
    for (int i = 0; r->entries[p] && i < r->entries[p]->n_facts; i++)
      if (!is_named_before(r, p, r->entries[p]->facts[i].name)) check_fact(r, &r->entries[p]->facts[i]);
}

static void check_problems(roll *r)
{
  for (int p = 0; p < r->n; p++) {
    if (!r->entries[p] || !r->entries[p]->problem[0]) continue;
    char finding[YK_ROLL_VALUE_BYTES + YK_ROLL_HOST_BYTES + 32];
    snprintf(finding, sizeof finding, "process %d on %s: %s", p, r->entries[p]->host, r->entries[p]->problem);
    find(r, finding);
    if (r->report) yk_strbuf_append_fmt(r->report, "%s\n", finding);
  }
}

/* Whether each process's ranks follow those of the process before it. */
static void check_ranks(roll *r)
{
  int next = 0;
  for (int p = 0; p < r->n; p++) {
    const yk_world *world = &r->entries[p]->world;
    yk_err err = YK_ERR_INIT;
    char finding[YK_ERR_MESSAGE_BYTES + 64] = "";
    if (r->entries[p]->problem[0]) return; /* its ranks may be unknown */
    if (yk_world_check(world, &err) != YK_OK)
      snprintf(finding, sizeof finding, "process %d: %s", p, err.message);
    else if (world->first_rank != next)
      snprintf(finding, sizeof finding, "process %d: expected ranks from %d on, found %d", p, next, world->first_rank);
    else if (p == r->n - 1 && next + world->n_local != world->n_ranks)
      snprintf(finding, sizeof finding, "ranks of all processes: expected %d, found %d", world->n_ranks,
               next + world->n_local);
    if (finding[0]) {
      find(r, finding);
      if (r->report) yk_strbuf_append_fmt(r->report, "%s\n", finding);
      return;
    }
    next += world->n_local;
  }
}

static void list_missing(roll *r, int n_missing)
{
  yk_strbuf missing = YK_STRBUF_INIT;
  const char *between = " ";
  yk_strbuf_append_str(&missing, n_missing == 1 ? "process" : "processes");
  for (int p = 0; p < r->n; p++) {
    if (r->entries[p]) continue;
    yk_strbuf_append_fmt(&missing, "%s%d", between, p);
    between = ", ";
  }
  yk_strbuf_append_fmt(&missing, " of %d %s missing", r->n, n_missing == 1 ? "is" : "are");
  if (missing.data) find(r, missing.data);
  yk_strbuf_free(&missing);
}

static void show_processes(const roll *r)
{
  yk_strbuf_append_fmt(r->report, "%-8s%-7s%-24s%-8s%s\n", "process", "ranks", "host", "pid", "address");
  for (int p = 0; p < r->n; p++) {
    const yk_roll_entry *e = r->entries[p];
    char ranks[32] = "-";
    if (!e) {
      yk_strbuf_append_fmt(r->report, "%-8dMISSING\n", p);
      continue;
    }
    const int last = e->world.first_rank + e->world.n_local - 1;
    if (e->world.n_local == 1)
      snprintf(ranks, sizeof ranks, "%d", last);
    else if (e->world.n_local > 1)
      snprintf(ranks, sizeof ranks, "%d-%d", e->world.first_rank, last);
    yk_strbuf_append_fmt(r->report, "%-8d%-7s%-24s%-8d%s\n", p, ranks, e->host, e->pid, e->address);
  }
}

static int count_missing(const roll *r)
{
  int n = 0;
  for (int p = 0; p < r->n; p++) n += !r->entries[p];
  return n;
}

static void check_all(roll *r)
{
  const int n_missing = count_missing(r);
  if (r->report) show_processes(r);
  if (n_missing > 0) list_missing(r, n_missing);
  check_problems(r);
  check_facts(r);
  if (n_missing == 0) check_ranks(r);
}

bool yk_roll_is_sound(yk_roll_entry *const *entries, int n_processes)
{
  roll r = {.entries = entries, .n = n_processes};
  check_problems(&r);
  check_facts(&r);
  bool is_sound = r.findings.length == 0;
  yk_strbuf_free(&r.findings);
  return is_sound;
}

static void list_peers(const roll *r, yk_roll_decision *out)
{
  out->n_peers = r->n;
  for (int p = 0; p < r->n; p++) {
    const yk_roll_entry *entry = r->entries[p];
    yk_roll_peer *peer = &out->peers[p];
    *peer = (yk_roll_peer){.first_rank = entry->world.first_rank, .n_local = entry->world.n_local, .port = entry->port};
    memcpy(peer->host, entry->host, sizeof peer->host);
    memcpy(peer->address, entry->address, sizeof peer->address);
  }
}

void yk_roll_decide(yk_roll_entry *const *entries, int n_processes, const char *refused, yk_roll_decision *out)
{
  yk_strbuf report = YK_STRBUF_INIT;
  roll r = {.entries = entries, .n = n_processes, .report = &report};
  check_all(&r);
  yk_strbuf_append_str(&report, refused);
  const int n_missing = count_missing(&r);
  if (r.findings.failed || report.failed)
    yk_err_set(&out->result, YK_E_NOMEM, "no memory for the report of the roll call");
  else if (r.findings.length > 0)
    yk_err_set(&out->result, n_missing > 0 ? YK_E_TIMEOUT : YK_E_COMM, "roll call: %s", r.findings.data);
  else
    list_peers(&r, out);
  yk_strbuf_free(&r.findings);
  out->report = report.data;
}

#include "parallel/cluster/roll.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "parallel/cluster/bytes.h"
#include "parallel/cluster/frame.h"

static void write_number_fact(yk_strbuf *to, const char *name, int number)
{
  char value[16];
  snprintf(value, sizeof value, "%d", number);
  yk_put_text(to, name);
  yk_put_text(to, value);
  yk_put_u32(to, YK_FACT_EQUAL);
}

/* Writes a text, truncated to the size that readers accept. */
static void write_cut(yk_strbuf *to, const char *text, size_t capacity)
{
  char cut[YK_ROLL_VALUE_BYTES];
  snprintf(cut, capacity < sizeof cut ? capacity : sizeof cut, "%s", text ? text : "");
  yk_put_text(to, cut);
}

void yk_roll_write_entry(yk_strbuf *to, const yk_cluster_options *options, const char *host, int port)
{
  const yk_world *world = &options->world;
  yk_put_u32(to, (uint32_t)options->process);
  yk_put_u32(to, (uint32_t)options->n_processes);
  yk_put_u32(to, (uint32_t)getpid());
  yk_put_u32(to, (uint32_t)world->n_ranks);
  yk_put_u32(to, (uint32_t)world->n_stages);
  yk_put_u32(to, (uint32_t)world->first_rank);
  yk_put_u32(to, (uint32_t)world->n_local);
  yk_put_u32(to, (uint32_t)port);
  write_cut(to, host, YK_ROLL_HOST_BYTES);
  write_cut(to, options->problem, YK_ROLL_VALUE_BYTES);
  yk_put_u32(to, (uint32_t)options->n_facts + 3);
  write_number_fact(to, "processes", options->n_processes);
  write_number_fact(to, "ranks", world->n_ranks);
  write_number_fact(to, "pipeline stages", world->n_stages);
  for (int i = 0; i < options->n_facts; i++) {
    write_cut(to, options->facts[i].name, YK_ROLL_NAME_BYTES);
    write_cut(to, options->facts[i].value, YK_ROLL_VALUE_BYTES);
    yk_put_u32(to, options->facts[i].rule);
  }
}

yk_status yk_roll_read_entry(const void *bytes, size_t n_bytes, yk_roll_entry **out, yk_err *err)
{
  yk_bytes from = {.at = bytes, .end = (const unsigned char *)bytes + n_bytes};
  yk_roll_entry *entry = calloc(1, sizeof *entry);
  if (!entry) return yk_err_set(err, YK_E_NOMEM, "no memory for a process of the roll call");
  entry->process = yk_take_int(&from, INT32_MAX);
  entry->n_processes = yk_take_int(&from, INT32_MAX);
  entry->pid = yk_take_int(&from, INT32_MAX);
  entry->world.n_ranks = yk_take_int(&from, YK_MAX_RANKS);
  entry->world.n_stages = yk_take_int(&from, YK_MAX_RANKS);
  entry->world.first_rank = yk_take_int(&from, YK_MAX_RANKS);
  entry->world.n_local = yk_take_int(&from, YK_MAX_RANKS);
  entry->port = yk_take_int(&from, 65535);
  yk_take_line(&from, entry->host, sizeof entry->host);
  yk_take_line(&from, entry->problem, sizeof entry->problem);
  entry->n_facts = yk_take_int(&from, YK_ROLL_MAX_FACTS);
  for (int i = 0; i < entry->n_facts; i++) {
    yk_take_line(&from, entry->facts[i].name, sizeof entry->facts[i].name);
    yk_take_line(&from, entry->facts[i].value, sizeof entry->facts[i].value);
    entry->facts[i].rule = (yk_fact_rule)yk_take_int(&from, YK_FACT_EXCLUSIVE);
  }
  if (!from.failed && from.at == from.end) {
    *out = entry;
    return YK_OK;
  }
  free(entry);
  return yk_err_set(err, YK_E_COMM, "expected the facts of a process, found %zu other bytes", n_bytes);
}

void yk_roll_write_decision(yk_strbuf *to, const yk_roll_decision *decision)
{
  yk_put_u32(to, decision->result.code);
  yk_put_text(to, decision->result.message);
  yk_put_text(to, decision->report);
  yk_strbuf_append(to, decision->run_id, YK_RUN_ID_BYTES);
  yk_put_u32(to, (uint32_t)decision->n_peers);
  for (int i = 0; i < decision->n_peers; i++) {
    const yk_roll_peer *peer = &decision->peers[i];
    yk_put_u32(to, (uint32_t)peer->first_rank);
    yk_put_u32(to, (uint32_t)peer->n_local);
    yk_put_u32(to, (uint32_t)peer->port);
    yk_put_text(to, peer->host);
    yk_put_text(to, peer->address);
  }
}

yk_status yk_roll_read_decision(const void *bytes, size_t n_bytes, yk_roll_decision *out, yk_err *err)
{
  yk_bytes from = {.at = bytes, .end = (const unsigned char *)bytes + n_bytes};
  *out = (yk_roll_decision){.result.rank = -1};
  out->report = malloc(n_bytes + 1);
  if (!out->report) return yk_err_set(err, YK_E_NOMEM, "no memory for the decision of the roll call");
  out->result.code = (yk_status)yk_take_int(&from, YK_E_AGAIN);
  yk_take_text(&from, out->result.message, sizeof out->result.message);
  yk_take_text(&from, out->report, n_bytes + 1);
  const void *run_id = yk_take(&from, YK_RUN_ID_BYTES);
  if (run_id) memcpy(out->run_id, run_id, YK_RUN_ID_BYTES);
  out->n_peers = yk_take_int(&from, YK_CLUSTER_MAX_PROCESSES);
  for (int i = 0; i < out->n_peers; i++) {
    yk_roll_peer *peer = &out->peers[i];
    peer->first_rank = yk_take_int(&from, YK_MAX_RANKS);
    peer->n_local = yk_take_int(&from, YK_MAX_RANKS);
    peer->port = yk_take_int(&from, 65535);
    yk_take_text(&from, peer->host, sizeof peer->host);
    yk_take_text(&from, peer->address, sizeof peer->address);
  }
  if (!from.failed && from.at == from.end) return YK_OK;
  free(out->report);
  out->report = NULL;
  return yk_err_set(err, YK_E_COMM, "expected the decision of the roll call, found %zu other bytes", n_bytes);
}

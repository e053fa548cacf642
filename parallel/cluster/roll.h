/* roll.h - the roll call's contents: the report of a process and the decision of process 0, as messages and as a table.
 * No I/O. Messages come from other processes and are read as untrusted. */
#ifndef YK_PARALLEL_CLUSTER_ROLL_H
#define YK_PARALLEL_CLUSTER_ROLL_H

#include "base/strbuf.h"
#include "parallel/cluster/cluster.h"

enum {
  YK_ROLL_HOST_BYTES = 65,
  YK_ROLL_ADDRESS_BYTES = 64,
  YK_ROLL_NAME_BYTES = 64,
  YK_ROLL_VALUE_BYTES = 1024,
  YK_ROLL_MAX_FACTS = YK_CLUSTER_MAX_FACTS + 3, /* the caller's; numbers of processes, ranks, stages */
  YK_RUN_ID_BYTES = 16
};

typedef struct yk_roll_fact {
  yk_fact_rule rule;
  char name[YK_ROLL_NAME_BYTES], value[YK_ROLL_VALUE_BYTES];
} yk_roll_fact;

/* Report of one process. */
typedef struct yk_roll_entry {
  int process, n_processes, pid;
  yk_world world;
  int port; /* of its door; of process 0: 0, the master port */
  char host[YK_ROLL_HOST_BYTES];
  char address[YK_ROLL_ADDRESS_BYTES]; /* as process 0 sees it; not in the message */
  char problem[YK_ROLL_VALUE_BYTES];
  int n_facts;
  yk_roll_fact facts[YK_ROLL_MAX_FACTS];
} yk_roll_entry;

/* yk_roll_write_entry - the entry of this process. */
void yk_roll_write_entry(yk_strbuf *to, const yk_cluster_options *options, const char *host, int port);
/* yk_roll_read_entry - *out: malloc'ed, the caller frees it. Errors: YK_E_COMM (not an entry), YK_E_NOMEM. */
yk_status yk_roll_read_entry(const void *bytes, size_t n_bytes, yk_roll_entry **out, yk_err *err);

/* Addresses and ranks of a process, for all others. */
typedef struct yk_roll_peer {
  int first_rank, n_local, port;
  char host[YK_ROLL_HOST_BYTES], address[YK_ROLL_ADDRESS_BYTES];
} yk_roll_peer;

typedef struct yk_roll_decision {
  yk_err result; /* code YK_OK: the run starts */
  char *report;  /* the table; malloc'ed */
  unsigned char run_id[YK_RUN_ID_BYTES];
  int n_peers;
  yk_roll_peer peers[YK_CLUSTER_MAX_PROCESSES];
} yk_roll_decision;

/* yk_roll_write_decision - append the message of a decision; to->failed if memory runs out. */
void yk_roll_write_decision(yk_strbuf *to, const yk_roll_decision *decision);

/* yk_roll_read_decision - Errors: YK_E_COMM, YK_E_NOMEM; report is then NULL. */
yk_status yk_roll_read_decision(const void *bytes, size_t n_bytes, yk_roll_decision *out, yk_err *err);

/* yk_roll_is_sound - whether the entries received so far agree. entries [n_processes]: NULL for missing processes. */
bool yk_roll_is_sound(yk_roll_entry *const *entries, int n_processes);

/* yk_roll_decide - result, report and peers from the entries. refused: lines about refused connections.
 *   Errors (in the result): YK_E_TIMEOUT if processes are missing, YK_E_COMM if facts differ. */
void yk_roll_decide(yk_roll_entry *const *entries, int n_processes, const char *refused, yk_roll_decision *out);

#endif

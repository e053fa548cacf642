/* cluster.h - the processes of a run, connected over TCP: roll call, exchange, commands, failure of a process.
 *
 * Process 0 listens at the master address; the others connect to it. In the roll call every process reports its ranks
 * and facts about itself, and process 0 decides whether the run starts. After it, process 0 has three connections with
 * each follower (heartbeats, commands, exchange), and any two processes open further ones (links) for their ranks.
 *
 * Trust: a connection begins with a mutual challenge, answered by HMAC-SHA256 with the run's key, which is never sent.
 * Without a key, only connections from this machine and from allowed hosts are accepted. Contents are neither encrypted
 * nor authenticated message by message.
 *
 * Failure: every process sends a heartbeat, from a separate thread, several times within the silence limit. The first
 * failure that reaches process 0 (a connection ends, a process is silent, a process reports an error) is recorded, sent
 * to all processes, and ends every connection. Every blocked and later call of the cluster, of its links and of
 * communicators on them then fails. Its error names process, host and ranks; its code is the reported one, or YK_E_COMM
 * for a lost process. */
#ifndef YK_PARALLEL_CLUSTER_CLUSTER_H
#define YK_PARALLEL_CLUSTER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/log.h"
#include "parallel/exchange.h"
#include "parallel/world.h"

typedef struct yk_cluster yk_cluster;

enum {
  YK_CLUSTER_MAX_PROCESSES = YK_MAX_RANKS,
  YK_CLUSTER_PORT = 29500, /* the master port unless one is given, as torchrun's */
  YK_CLUSTER_MAX_FACTS = 64
};

/* How the values of a fact in all processes must relate. */
typedef enum yk_fact_rule {
  YK_FACT_SHOWN,    /* reported only: host interfaces, driver */
  YK_FACT_EQUAL,    /* equal in all processes: version, checkpoint identity, options */
  YK_FACT_EXCLUSIVE /* the space-separated words of the value must be distinct: GPUs */
} yk_fact_rule;

typedef struct yk_fact {
  const char *name, *value; /* at most 63 and 1023 bytes of UTF-8 */
  yk_fact_rule rule;
} yk_fact;

/* A socket that process 0 listens on before it joins, for start-up mechanisms that distribute its address. */
typedef struct yk_listener {
  int fd;
  int port;
} yk_listener;

/* yk_listener_open - listen at a host's address (name, IPv4 or IPv6 address; NULL: all of this machine) and port; port
 *   0: any free one, which is returned. Errors: YK_E_IO, naming address and reason. */
yk_status yk_listener_open(const char *host, int port, yk_listener *out, yk_err *err);
void yk_listener_close(yk_listener *listener); /* a listener that no join has taken */

/* yk_listener_hold - a listener that no join has taken stops listening, but reserves its port: other processes of this
 *   host can listen on this port, one at a time. Errors: YK_E_IO; the listener is then closed. */
yk_status yk_listener_hold(yk_listener *listener, yk_err *err);

typedef struct yk_cluster_options {
  int process, n_processes;    /* in the order of their ranks */
  yk_world world;              /* n_ranks and n_stages must be equal in all processes; the ranges of ranks must tile */
  const char *master_host;     /* of process 0: a name, an IPv4 or an IPv6 address */
  int master_port;             /* 1 to 65535 */
  const yk_listener *listener; /* process 0: taken over, even on failure, in place of master host and port; or NULL */
  const char *key;             /* shared secret, or NULL or "": none */
  const char *const *allowed_hosts; /* [n_allowed] hosts that may connect without a key, in addition to this machine */
  int n_allowed;
  double start_timeout_s; /* > 0: limit of the whole join */
  double silence_limit_s; /* > 0: a process that sends nothing for so long has failed */
  const yk_fact *facts;   /* [n_facts], with the same names in the same order in all processes */
  int n_facts;
  const char *problem; /* why this process cannot take part, or NULL: the roll call then fails and shows it to all */
  const yk_log *log;   /* refused connections, addresses listened on; kept; or NULL */
} yk_cluster_options;

/* yk_cluster_join - hold the roll call and connect; the same decision in every process.
 *   *report: the table of processes with missing, different and conflicting facts, as text, in process 0 and in each
 *   process that process 0 has answered; else NULL. The caller frees it, after a failure too.
 *   Errors: YK_E_COMM or YK_E_TIMEOUT with the summary: missing processes, differing facts, or the reason why this
 *   process was refused; YK_E_INVAL (options); YK_E_IO (cannot listen); YK_E_NOMEM.
 *   Thread: any. SIGPIPE is not raised. */
yk_status yk_cluster_join(const yk_cluster_options *options, yk_cluster **out, char **report, yk_err *err);

/* yk_cluster_process, yk_cluster_n_processes - this process's number, and the number of all. Thread: any. */
int yk_cluster_process(const yk_cluster *cluster);
int yk_cluster_n_processes(const yk_cluster *cluster);

/* yk_cluster_world - the ranks of a process: world of that process. */
yk_world yk_cluster_world(const yk_cluster *cluster, int process);

/* yk_cluster_process_of - the process that runs a rank. */
int yk_cluster_process_of(const yk_cluster *cluster, int rank);

/* yk_cluster_name - a process for messages, "process 2 (host b, ranks 4-5)"; lives as long as the cluster. */
const char *yk_cluster_name(const yk_cluster *cluster, int process);

/* yk_cluster_host - the host name of a process; lives as long as the cluster. */
const char *yk_cluster_host(const yk_cluster *cluster, int process);

/* yk_cluster_exchange - the start-up exchange of these processes; valid while the cluster is.
 *   At most 64 MiB a process and call. Independent of commands: may be used while a command is in progress. */
yk_exchange yk_cluster_exchange(yk_cluster *cluster);

/* Commands: process 0 sends, every follower receives in the same order and answers each command once. Several may be in
 * progress. One thread of a process at a time; the two directions (send and wait, receive and answer) may be used by
 * different threads. */

/* yk_cluster_send - process 0: send one message to every follower. kind: the caller's, any value. The message is the
 *   n_pieces pieces one after the other, at most 256 MiB. Returns when the pieces may change. Errors: YK_E_COMM. */
yk_status yk_cluster_send(yk_cluster *cluster, uint32_t kind, const struct iovec *pieces, int n_pieces, yk_err *err);

typedef struct yk_cluster_message {
  bool is_end; /* process 0 has left in order: this message is empty, and no further message follows */
  uint32_t kind;
  const void *data; /* [n_bytes] aligned to 64 bytes, until the next receive */
  size_t n_bytes;
} yk_cluster_message;

/* yk_cluster_receive - follower: wait for the next message. timeout_s <= 0: for ever.
 *   Errors: YK_E_COMM (the failure of a process), YK_E_AGAIN (no message within the time), YK_E_NOMEM. */
yk_status yk_cluster_receive(yk_cluster *cluster, double timeout_s, yk_cluster_message *out, yk_err *err);

/* yk_cluster_answer - follower: answer the oldest message that has no answer yet. result: code, rank and message, with
 *   code YK_OK if all is well. An error does not end the cluster. Errors: YK_E_COMM. */
yk_status yk_cluster_answer(yk_cluster *cluster, const yk_err *result, yk_err *err);

/* yk_cluster_wait - process 0: wait for every follower's answer to the oldest message that has not been waited for.
 *   timeout_s <= 0: for ever. Errors: the first failed answer in process order, with its code and rank, its text after
 *   the process's name; YK_E_TIMEOUT, naming the processes whose answers are missing; YK_E_COMM. */
yk_status yk_cluster_wait(yk_cluster *cluster, double timeout_s, yk_err *err);

/* yk_cluster_answer_of - process 0: the last whole answer of a follower, after yk_cluster_wait has taken all. Thread:
 *   that of yk_cluster_wait. */
void yk_cluster_answer_of(const yk_cluster *cluster, int process, yk_err *out);

/* yk_cluster_watch - call on_failure once, from a thread of the cluster or from within this call, when the cluster has
 *   failed, after every connection has ended. NULL ends the watch, and returns only once no call is running
 *   (unless called by on_failure). Thread: any. */
void yk_cluster_watch(yk_cluster *cluster, void (*on_failure)(void *context, const yk_err *failure), void *context);

/* yk_cluster_lost - a connection with a process has failed. Waits 0.5 s for a heartbeat that gives the reason; without
 *   one, fails the cluster with `why`. Returns the failure. Thread: any. */
yk_status yk_cluster_lost(yk_cluster *cluster, int process, const yk_err *why, yk_err *err);

/* yk_cluster_check - YK_OK, or the failure of the cluster. Thread: any; does not block. */
yk_status yk_cluster_check(yk_cluster *cluster, yk_err *err);

/* yk_cluster_abort - report a failure of this process: all other processes fail with it, prefixed by this process's
 *   name. No effect once the cluster has failed. Thread: any. */
void yk_cluster_abort(yk_cluster *cluster, const yk_err *failure);

/* yk_cluster_blame - the same for the failure of another process: the prefix is its name. Thread: any. */
void yk_cluster_blame(yk_cluster *cluster, int process, const yk_err *failure);

/* yk_cluster_link - connects with one process for a separate purpose; both processes call it with the same tag, and
 *   several tags may be in progress at once. *fd: a blocking TCP socket without delay, the caller's to close; the
 *   failure of the cluster shuts it down until yk_cluster_unlink. tag: at most 31 bytes.
 *   Errors: YK_E_COMM, YK_E_TIMEOUT (the other process has not called within the start timeout). Thread: any. */
yk_status yk_cluster_link(yk_cluster *cluster, int process, const char *tag, int *fd, yk_err *err);
void yk_cluster_unlink(yk_cluster *cluster, int fd); /* closes the socket */

/* yk_cluster_leave - end in order and free. Process 0: followers receive is_end; waits up to grace_s for them to leave.
 *   A follower that leaves before process 0 fails the run. After a failure: frees at once. NULL is allowed. No other
 *   call may be running and every link must be closed. */
void yk_cluster_leave(yk_cluster *cluster, double grace_s);

#endif

/* state.h - a cluster as its own files see it. */
#ifndef YK_PARALLEL_CLUSTER_STATE_H
#define YK_PARALLEL_CLUSTER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "parallel/cluster/bytes.h"
#include "parallel/cluster/door.h"
#include "parallel/cluster/roll.h"

/* The first number of a proof's body. */
typedef enum yk_purpose { YK_PURPOSE_ENTRY = 1, YK_PURPOSE_LINK } yk_purpose;

/* A heartbeat connection. The monitor reads; out may be filled by any thread, under the mutex. */
typedef struct yk_control {
  int fd; /* -1: none, or over */
  bool has_left;
  int64_t heard_ns; /* when the last bytes came */
  unsigned char in[sizeof(yk_frame) + YK_FRAME_MAX_FAILURE];
  unsigned char out[2 * (sizeof(yk_frame) + YK_FRAME_MAX_FAILURE)];
  size_t n_in, n_out;
} yk_control;

typedef struct yk_link {
  int fd; /* -1: free */
  int process;
  bool is_taken; /* by yk_cluster_link; false: has arrived and waits for the call */
  char tag[32];
} yk_link;

/* An answer as it arrives at process 0: a message of constant size. */
typedef struct yk_answer {
  yk_frame head;
  int32_t code, rank;
  char text[YK_ERR_MESSAGE_BYTES];
} yk_answer;

struct yk_cluster {
  int process, n_processes;
  yk_world world;
  double start_timeout_s;
  int64_t silence_ns;
  const yk_log *log;
  char *key; /* "" without one */
  char *master_host;
  int master_port;
  unsigned char run_id[YK_RUN_ID_BYTES];
  yk_roll_peer peers[YK_CLUSTER_MAX_PROCESSES];
  int first_ranks[YK_CLUSTER_MAX_PROCESSES + 1]; /* of the peers; then the number of ranks */
  char names[YK_CLUSTER_MAX_PROCESSES][YK_ROLL_HOST_BYTES + 48];

  yk_door *door; /* the monitor's once it runs */
  yk_address *allowed;
  pthread_t monitor;
  bool has_monitor;
  int wake_fd; /* an eventfd that ends the monitor's poll */

  pthread_mutex_t mutex; /* of all below, down to commands */
  pthread_cond_t cv_changed;
  yk_control controls[YK_CLUSTER_MAX_PROCESSES]; /* by process */
  yk_link *links;                                /* [n_links], with gaps */
  int n_links;
  bool is_leaving, is_stopped;
  atomic_bool has_failed; /* also read without the mutex; failure is constant once set */
  yk_err failure;
  void (*on_failure)(void *context, const yk_err *failure);
  void *watch_context;
  bool is_calling_watch;
  pthread_t watch_caller;

  /* Each used by one thread at a time. */
  unsigned n_communicators;                                                    /* yk_wires */
  int commands[YK_CLUSTER_MAX_PROCESSES], exchanges[YK_CLUSTER_MAX_PROCESSES]; /* sockets, -1: none */
  yk_answer answers[YK_CLUSTER_MAX_PROCESSES];
  size_t n_answered[YK_CLUSTER_MAX_PROCESSES]; /* bytes of the answer that is arriving */
  void *received;                              /* [received_bytes] the last command */
  size_t received_bytes;
};

/* yk_cluster_new - an unconnected cluster. Errors: YK_E_NOMEM. */
yk_status yk_cluster_new(const yk_cluster_options *options, yk_cluster **out, yk_err *err);
/* yk_cluster_free - stop the monitor and free everything, without a word to other processes. */
void yk_cluster_free(yk_cluster *cluster);
/* yk_cluster_name_peers - takes the names of the peers from the roll call's decision. */
void yk_cluster_name_peers(yk_cluster *cluster, const yk_roll_decision *decision);

/* yk_cluster_fail - record a failure, unless there is one or the run is ending in order; send it to all that have a
 *   heartbeat connection; end every link. */
void yk_cluster_fail(yk_cluster *cluster, const yk_err *failure);

/* yk_cluster_start_monitor - Errors: YK_E_NOMEM. */
yk_status yk_cluster_start_monitor(yk_cluster *cluster, yk_err *err);
void yk_cluster_stop_monitor(yk_cluster *cluster);
void yk_cluster_wake_monitor(yk_cluster *cluster);
/* yk_control_queue - appends a message to the send queue, under the mutex; drops the message if the peer accepts no
 * data. */
void yk_control_queue(yk_control *control, yk_frame_type type, const void *body, size_t n_bytes);
/* yk_control_flush - sends the bytes that the socket accepts, under the mutex. */
void yk_control_flush(yk_control *control);

/* yk_cluster_take_arrival - monitor: a proven connection for a link. */
void yk_cluster_take_arrival(yk_cluster *cluster, yk_arrival *arrival);

#endif

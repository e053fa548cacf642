/* wire.h - data between processes that own ranks of one group: the interface of a transport (TCP, MPI). */
#ifndef YK_PARALLEL_WIRE_H
#define YK_PARALLEL_WIRE_H

#include <sys/uio.h>

#include "base/status.h"
#include "yoke/limits.h"

/* The pieces of one message, in order; the pieces are changed. No piece: no message. Pieces of length 0: an empty
 * message. */
typedef struct yk_wire_message {
  struct iovec *pieces;
  int n_pieces;
} yk_wire_message;

typedef struct yk_wire yk_wire;

typedef struct yk_wire_ops {
  const char *name; /* "tcp", "mpi" */
  /* Sends send[i] to the i-th process of the wire and receives receive[i] from it, for all i but this process, at the
   * same time; returns once the sent pieces may change and the received pieces are complete. Both ends pass pieces of
   * equal lengths.
   * Errors: YK_E_COMM, naming the process. Thread: one at a time. */
  yk_status (*swap)(yk_wire *wire, yk_wire_message *send, yk_wire_message *receive, yk_err *err);
  /* Ends the pending swap and all later ones, here and in the other processes. Thread: any. Never blocks. */
  void (*abort)(yk_wire *wire);
  void (*destroy)(yk_wire *wire);
} yk_wire_ops;

struct yk_wire {
  const yk_wire_ops *ops;
  int n_processes, self; /* of the wire; self: this process's index in the wire's list */
};

/* The processes of a run and their transport. */
typedef struct yk_wires {
  int process, n_processes;
  const int *first_ranks;    /* [n_processes + 1] of each process; then the number of ranks */
  unsigned *n_communicators; /* made so far, the same number in all processes */
  /* Connects processes [n, in ascending order, this one among them], which all call it with the same list and tag.
   * tag: at most 31 bytes. Errors: YK_E_COMM, YK_E_TIMEOUT, YK_E_NOMEM. */
  yk_status (*open)(void *context, const int *processes, int n, const char *tag, yk_wire **out, yk_err *err);
  void *context;
} yk_wires;

#endif

/* conformance.h - requirements on every communicator, as one suite. The test program of a transport defines a fixture
 * that creates devices and communicator ends, and calls comm_conformance_run. */
#ifndef TESTS_COMM_CONFORMANCE_H
#define TESTS_COMM_CONFORMANCE_H

#include "parallel/comm.h"

enum { COMM_TESTED_RANKS = 8 }; /* most ranks of a fixture */

typedef struct comm_shape {
  int32_t n_rows, hidden;
} comm_shape;

typedef struct comm_fixture {
  const char *name;
  /* Create n_ranks devices of dtype and their connected ends. Returns false if this machine cannot (too few GPUs). */
  bool (*open)(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms);
  /* The same for n_ranks ranks in n_stages pipeline stages; NULL: the transport has no stages. */
  bool (*open_stages)(int n_stages, int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms);
  void (*close)(int n_ranks, yk_device **devs, yk_comm **comms);
  int max_ranks;
  /* Largest relative error of a sum over ranks against float64, in units of the type's rounding step. Transports that
   * add in float32 and round once need 1; a transport that rounds at each hop needs more. */
  double (*rounding_steps)(int n_ranks, comm_shape shape);
  const comm_shape *large_shapes; /* [n_large_shapes] summed in addition to the shapes for every transport */
  int n_large_shapes;
  bool whole_packets;  /* sums are of whole 16 bytes */
  bool opens_memories; /* certainly; other transports may */
  bool opens_slowly;   /* tests that break the ends run with 2 ranks and with all, not with every number */
  double step_limit_s; /* an absent rank is named within this time; 0: the transport names no rank */
} comm_fixture;

/* comm_conformance_run - returns cmocka's count of failed tests. */
int comm_conformance_run(const comm_fixture *fixture);

#endif

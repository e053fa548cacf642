/* plugin.h - the functions of libyoke_mpi.so, the only code that calls MPI. An MPI library has no common binary
 * interface, so the plug-in is built where mpi.h is found and loaded only into processes that MPI has started.
 * Processes are numbered as in MPI_COMM_WORLD. Every function that fails fills err with MPI's own words. */
#ifndef YK_PARALLEL_MPI_PLUGIN_PLUGIN_H
#define YK_PARALLEL_MPI_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* A process among those that MPI has started. */
typedef struct yk_mpi_place {
  int process, n_processes;
  int on_host, n_on_host; /* number among the processes of this host, and their number */
  bool any_thread;        /* several threads may call MPI at the same time */
} yk_mpi_place;

typedef struct yk_mpi_functions {
  /* MPI_Init. Errors: YK_E_UNSUPPORTED if the library is not the one that the plug-in was built with, naming both. */
  yk_status (*start)(yk_mpi_place *out, yk_err *err);
  void (*end)(void); /* MPI_Finalize: waits for all processes */
  /* bytes [n_bytes] of process 0 go to all. */
  yk_status (*broadcast)(void *bytes, size_t n_bytes, yk_err *err);
  /* A group of processes [n, ascending], called by all of them. number: 0 to 32767, equal in all. */
  yk_status (*open)(const int *processes, int n, int number, void **group, yk_err *err);
  void (*close)(void *group);
  /* Begin to send to, or to receive from, the i-th process of a group; requests [first_request]: in the group's array,
   * which grows as needed. n_bytes: less than 2 GiB. */
  yk_status (*send)(void *group, int to, const void *bytes, size_t n_bytes, yk_err *err);
  yk_status (*receive)(void *group, int from, void *bytes, size_t n_bytes, yk_err *err);
  /* Whether everything that the group has begun is done. */
  yk_status (*test)(void *group, bool *is_done, yk_err *err);
} yk_mpi_functions;

/* yk_mpi_functions_get - the table; the name to look up. */
const yk_mpi_functions *yk_mpi_functions_get(void);

#endif

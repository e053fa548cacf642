#include "parallel/mpi/plugin/plugin.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

#ifdef OMPI_MAJOR_VERSION
#define BUILT_WITH "Open MPI v" YK_LIBRARY_STRING(OMPI_MAJOR_VERSION) "."
#elif defined MPICH_VERSION
#define BUILT_WITH "MPICH Version: " MPICH_VERSION
#else
#error "unknown MPI library: expected Open MPI or MPICH"
#endif

/* Whether libraries of one kind and version have written two texts, ignoring white space. */
static bool begins_with(const char *text, const char *prefix)
{
  for (; *prefix; text++) {
    if (*text == *prefix)
      prefix++;
    else if (*text != ' ' && *text != '\t')
      return false;
  }
  return true;
}

static yk_status check(int result, const char *what, yk_err *err)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (result == MPI_SUCCESS) return YK_OK;
  MPI_Error_string(result, text, &length);
  return yk_err_set(err, YK_E_COMM, "%s: %s", what, text);
}

static yk_status check_library(yk_err *err)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  if (begins_with(text, BUILT_WITH)) return YK_OK;
  text[strcspn(text, ",\n")] = 0;
  return yk_err_set(err, YK_E_UNSUPPORTED, "MPI: expected %s, with which Yoke was built, found %.100s", BUILT_WITH,
                    text);
}

static yk_status mpi_start(yk_mpi_place *out, yk_err *err)
{
  int provided = MPI_THREAD_SINGLE;
  MPI_Comm host;
  YK_TRY(check_library(err));
  YK_TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread", err));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &out->process);
  MPI_Comm_size(MPI_COMM_WORLD, &out->n_processes);
  YK_TRY(check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, out->process, MPI_INFO_NULL, &host),
               "MPI_Comm_split_type", err));
  MPI_Comm_rank(host, &out->on_host);
  MPI_Comm_size(host, &out->n_on_host);
  MPI_Comm_free(&host);
  out->any_thread = provided >= MPI_THREAD_MULTIPLE;
  return YK_OK;
}

static void mpi_end(void)
{
  MPI_Finalize();
}

static yk_status mpi_broadcast(void *bytes, size_t n_bytes, yk_err *err)
{
  return check(MPI_Bcast(bytes, (int)n_bytes, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast", err);
}

typedef struct group {
  MPI_Comm comm;
  MPI_Request *requests; /* [capacity] */
  int n_requests, capacity;
} group;

static yk_status mpi_open(const int *processes, int n, int number, void **out, yk_err *err)
{
  MPI_Group world, members;
  group *g = calloc(1, sizeof *g);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for a group of processes");
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, n, processes, &members);
  yk_status status =
      check(MPI_Comm_create_group(MPI_COMM_WORLD, members, number, &g->comm), "MPI_Comm_create_group", err);
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  if (status != YK_OK) {
    free(g);
    return status;
  }
  MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN);
  *out = g;
  return YK_OK;
}

/* The communicator is not freed, because that would wait for the other processes. */
static void mpi_close(void *context)
{
  group *g = context;
  free(g->requests);
  free(g);
}

static yk_status next_request(group *g, size_t n_bytes, MPI_Request **out, yk_err *err)
{
  if (n_bytes > INT_MAX) return yk_err_set(err, YK_E_CAPACITY, "MPI: a message of %zu bytes is too long", n_bytes);
  if (g->n_requests == g->capacity) {
    const int capacity = 2 * g->capacity + 64;
    MPI_Request *larger = realloc(g->requests, (size_t)capacity * sizeof(MPI_Request));
    if (!larger) return yk_err_set(err, YK_E_NOMEM, "no memory for %d messages", capacity);
    g->requests = larger;
    g->capacity = capacity;
  }
  *out = &g->requests[g->n_requests++];
  return YK_OK;
}

static yk_status mpi_send(void *context, int to, const void *bytes, size_t n_bytes, yk_err *err)
{
  group *g = context;
  MPI_Request *request;
  YK_TRY(next_request(g, n_bytes, &request, err));
  return check(MPI_Isend(bytes, (int)n_bytes, MPI_BYTE, to, 0, g->comm, request), "MPI_Isend", err);
}

static yk_status mpi_receive(void *context, int from, void *bytes, size_t n_bytes, yk_err *err)
{
  group *g = context;
  MPI_Request *request;
  YK_TRY(next_request(g, n_bytes, &request, err));
  return check(MPI_Irecv(bytes, (int)n_bytes, MPI_BYTE, from, 0, g->comm, request), "MPI_Irecv", err);
}

static yk_status mpi_test(void *context, bool *is_done, yk_err *err)
{
  group *g = context;
  int all = 0;
  YK_TRY(check(MPI_Testall(g->n_requests, g->requests, &all, MPI_STATUSES_IGNORE), "MPI_Testall", err));
  if (all) g->n_requests = 0;
  *is_done = all != 0;
  return YK_OK;
}

__attribute__((visibility("default"))) const yk_mpi_functions *yk_mpi_functions_get(void)
{
  static const yk_mpi_functions functions = {.start = mpi_start,
                                             .end = mpi_end,
                                             .broadcast = mpi_broadcast,
                                             .open = mpi_open,
                                             .close = mpi_close,
                                             .send = mpi_send,
                                             .receive = mpi_receive,
                                             .test = mpi_test};
  return &functions;
}

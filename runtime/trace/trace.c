#include "trace/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum {
  MAX_ROWS = 1 + 2 * YK_MAX_RANKS, /* the engine's, and two of each rank */
  PLACE_BYTES = 96,
  FIRST_SLICES = 4096
};

typedef struct named_row {
  int process, row;
  const char *name;
} named_row;

struct yk_trace {
  char *path;
  FILE *file;
  int32_t max_steps, n_steps;
  yk_trace_slice *slices; /* [n_slices] */
  size_t n_slices, capacity;
  bool is_out_of_memory;
  named_row rows[MAX_ROWS];
  int n_rows;
  char places[YK_MAX_RANKS][PLACE_BYTES]; /* "" without one */
  pthread_t writer; /* valid if has_writer; writes the file, and only reads this struct meanwhile */
  bool has_writer;
  yk_err written; /* code YK_OK when the file is complete */
};

yk_status yk_trace_create(const char *path, int32_t max_steps, yk_trace **out, yk_err *err)
{
  *out = NULL;
  if (!path) return yk_err_set(err, YK_E_INVAL, "path: expected a file to write, found nothing");
  if (max_steps < 1) return yk_err_set(err, YK_E_INVAL, "max_steps: expected at least 1, found %d", max_steps);
  yk_trace *trace = calloc(1, sizeof *trace);
  char *copy = strdup(path);
  if (!trace || !copy) {
    free(trace);
    free(copy);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a trace");
  }
  *trace = (yk_trace){.path = copy, .max_steps = max_steps, .written = YK_ERR_INIT};
  trace->file = fopen(path, "w");
  if (!trace->file) {
    yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
    free(copy);
    free(trace);
    return YK_E_IO;
  }
  *out = trace;
  return YK_OK;
}

/* ---- Contents ---------------------------------------------------------------------------------------------------- */

bool yk_trace_wants(const yk_trace *trace)
{
  return trace->n_steps < trace->max_steps;
}

void yk_trace_name_row(yk_trace *trace, int process, int row, const char *name)
{
  for (int i = 0; i < trace->n_rows; i++)
    if (trace->rows[i].process == process && trace->rows[i].row == row) return;
  if (trace->n_rows < MAX_ROWS) trace->rows[trace->n_rows++] = (named_row){process, row, name};
}

/* Characters that end a string of JSON are left out. */
void yk_trace_place_rank(yk_trace *trace, int rank, const char *place)
{
  size_t n = 0;
  char *to = trace->places[rank];
  for (; *place && n + 1 < PLACE_BYTES; place++)
    if ((unsigned char)*place >= ' ' && *place != '"' && *place != '\\') to[n++] = *place;
  to[n] = '\0';
}

static bool reserve_slice(yk_trace *trace)
{
  if (trace->n_slices < trace->capacity) return true;
  size_t capacity = trace->capacity ? 2 * trace->capacity : FIRST_SLICES;
  yk_trace_slice *slices = realloc(trace->slices, capacity * sizeof *slices);
  if (!slices) return false;
  trace->slices = slices;
  trace->capacity = capacity;
  return true;
}

void yk_trace_add(yk_trace *trace, const yk_trace_slice *slice)
{
  if (!yk_trace_wants(trace) || trace->is_out_of_memory) return;
  trace->is_out_of_memory = !reserve_slice(trace);
  if (!trace->is_out_of_memory) trace->slices[trace->n_slices++] = *slice;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static void put_name(FILE *file, const char *what, int process, int row, const char *name)
{
  fprintf(file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}},\n", what, process,
          row, name);
}

static void put_rows(const yk_trace *trace)
{
  for (int i = 0; i < trace->n_rows; i++) {
    const named_row *row = &trace->rows[i];
    char process[32 + PLACE_BYTES] = "engine";
    const int rank = row->process - 1;
    const char *place = rank < 0 ? "" : trace->places[rank];
    if (rank >= 0) snprintf(process, sizeof process, place[0] ? "rank %d (%s)" : "rank %d", rank, place);
    put_name(trace->file, "process_name", row->process, row->row, process);
    put_name(trace->file, "thread_name", row->process, row->row, row->name);
  }
}

/* The file has microseconds; three decimals keep every nanosecond. */
static void put_slice(FILE *file, const yk_trace_slice *s, int64_t zero_ns)
{
  fprintf(file, "{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", s->name, s->process,
          s->row, (double)(s->begin_ns - zero_ns) * 1e-3, (double)(s->end_ns - s->begin_ns) * 1e-3);
  if (s->layer >= 0) fprintf(file, ",\"args\":{\"layer\":%d}", s->layer);
  if (s->n_rows >= 0) fprintf(file, ",\"args\":{\"rows\":%d}", s->n_rows);
  fprintf(file, "},\n");
}

/* Also closes the file. */
static void *write_all(void *user)
{
  yk_trace *trace = user;
  FILE *file = trace->file;
  int64_t zero_ns = INT64_MAX;
  for (size_t i = 0; i < trace->n_slices; i++)
    if (trace->slices[i].begin_ns < zero_ns) zero_ns = trace->slices[i].begin_ns;
  fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  put_rows(trace);
  for (size_t i = 0; i < trace->n_slices; i++) put_slice(file, &trace->slices[i], zero_ns);
  fprintf(file, "{\"ph\":\"M\",\"name\":\"trace_end\",\"pid\":0,\"tid\":0,\"args\":{\"steps\":%d}}\n]}\n",
          trace->n_steps);
  bool is_written = !ferror(file);
  is_written &= fclose(file) == 0;
  if (!is_written) yk_err_set(&trace->written, YK_E_IO, "%s: cannot be written: %s", trace->path, strerror(errno));
  return NULL;
}

void yk_trace_end_step(yk_trace *trace)
{
  if (!yk_trace_wants(trace)) return;
  trace->n_steps++;
  if (!yk_trace_wants(trace)) trace->has_writer = pthread_create(&trace->writer, NULL, write_all, trace) == 0;
}

yk_status yk_trace_finish(yk_trace *trace, yk_err *err)
{
  if (!trace) return YK_OK;
  if (trace->has_writer)
    pthread_join(trace->writer, NULL);
  else
    write_all(trace);
  if (trace->is_out_of_memory)
    yk_err_set(&trace->written, YK_E_NOMEM, "%s: no memory for all of %d steps", trace->path, trace->n_steps);
  yk_status status = trace->written.code;
  if (status != YK_OK) yk_err_set(err, status, "%s", trace->written.message);
  free(trace->slices);
  free(trace->path);
  free(trace);
  return status;
}

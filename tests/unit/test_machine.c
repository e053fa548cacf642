/* Measurements of a machine, on CPU ranks: rows and the limits derived from them, options that are refused, and a
 * failure of one measurement in its row while the others continue. The communicator can be made to give wrong sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "parallel/comm.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* ---- A communicator with wrong sums ------------------------------------------------------------------------------ */

static enum { SOUND, WRONG_VALUE, FAILS } fault_of_4_kib;

static yk_status faulty_all_reduce(yk_comm *comm, void *data, int64_t count, yk_dtype dtype, yk_err *err);

static yk_comm_ops sound_ops, faulty_ops;

static yk_status faulty_all_reduce(yk_comm *comm, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  bool errs = count == 2048 && comm->rank == 1;
  if (errs && fault_of_4_kib == FAILS) return yk_err_set(err, YK_E_COMM, "the line is dead");
  YK_TRY(sound_ops.all_reduce(comm, data, count, dtype, err));
  if (errs && fault_of_4_kib == WRONG_VALUE) yk_dtype_store(dtype, data, 77, 5.0f);
  return YK_OK;
}

yk_status __real_yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err);
yk_status __wrap_yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err);
yk_status __wrap_yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err)
{
  YK_TRY(__real_yk_comm_local_create(world, devs, out, err));
  sound_ops = *out[0]->ops;
  faulty_ops = sound_ops;
  faulty_ops.all_reduce = faulty_all_reduce;
  for (int rank = 0; rank < world->n_ranks; rank++) out[rank]->ops = &faulty_ops;
  return YK_OK;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static yk_machine_options small_options(void)
{
  yk_machine_options options;
  yk_machine_options_init(&options);
  options.device = YK_DEVICE_CPU;
  options.n_ranks = 3;
  options.n_cpu_threads = 3;
  options.memory_bytes = 8 << 20;
  options.gemm_m = 4;
  options.gemm_k = options.gemm_n = 256;
  options.all_reduce_max_bytes = 16 << 10;
  options.n_repeats = 3;
  return options;
}

static const yk_machine_row *find(const yk_machine_report *report, yk_machine_kind kind, const char *method,
                                  int n_ranks, int n_threads, int64_t n_bytes)
{
  for (size_t i = 0; i < report->n_rows; i++) {
    const yk_machine_row *row = &report->rows[i];
    if (row->kind == kind && strcmp(row->method, method) == 0 && row->n_ranks == n_ranks &&
        row->n_threads == n_threads && (n_bytes == 0 || row->n_bytes == n_bytes))
      return row;
  }
  fail_msg("no row %s, %s, %d ranks, %d threads, %lld bytes", yk_machine_kind_name(kind), method, n_ranks, n_threads,
           (long long)n_bytes);
  return NULL;
}

static void check_figures(const yk_machine_row *row, double operations)
{
  assert_string_equal(row->error, "");
  assert_true(row->us_low > 0 && row->us_low <= row->us && row->us <= row->us_high);
  assert_true(fabs(row->rate / (operations / row->us * 1e6) - 1) < 1e-9);
}

static void count_row(void *user, const yk_machine_row *row)
{
  assert_non_null(row->method);
  ++*(size_t *)user;
}

static void rows_and_limits(void **state)
{
  (void)state;
  yk_machine_options options = small_options();
  yk_machine_report report;
  yk_err err = YK_ERR_INIT;
  size_t n_reported = 0;
  options.on_row = count_row;
  options.on_row_user = &n_reported;
  assert_int_equal(yk_machine_measure(&options, &report, &err), YK_OK);
  assert_int_equal(n_reported, report.n_rows);
  assert_int_equal(report.n_rows, 3 + 1 + 2 + 2 * 3 * 2); /* reads by 1, 2, 3 threads; copy; GEMMs; all-reduces */
  const yk_machine_row *read = find(&report, YK_MACHINE_MEMORY, "read", 1, 3, 8 << 20);
  check_figures(read, 8 << 20);
  check_figures(find(&report, YK_MACHINE_MEMORY, "read", 1, 1, 8 << 20), 8 << 20);
  check_figures(find(&report, YK_MACHINE_MEMORY, "copy", 1, 3, 16 << 20), 16 << 20);
  const yk_machine_row *plain = find(&report, YK_MACHINE_GEMM, "plain", 1, 3, 256 * 256 * 2);
  check_figures(plain, 2.0 * 4 * 256 * 256);
  check_figures(find(&report, YK_MACHINE_GEMM, "awq", 1, 3, 0), 2.0 * 4 * 256 * 256);
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= 3); n_ranks++)
    for (int64_t n_bytes = 1024; n_bytes <= 16384; n_bytes *= 4) {
      const yk_machine_row *ours = find(&report, YK_MACHINE_ALL_REDUCE, "yoke", n_ranks, 3, n_bytes);
      check_figures(ours, (double)n_bytes);
      check_figures(find(&report, YK_MACHINE_ALL_REDUCE, "yoke, add and norm", n_ranks, 3, n_bytes), (double)n_bytes);
      assert_true(fabs(ours->bus_rate / ours->rate - 2.0 * (n_ranks - 1) / n_ranks) < 1e-9);
    }
  const yk_machine_limits *limits = &report.limits;
  assert_true(limits->memory_bytes_per_s >= read->rate);
  assert_true(limits->gemm_flops == plain->rate);
  assert_true(limits->link_bytes_per_s == 0);
  assert_int_equal(limits->n_all_reduces, 6);
  assert_int_equal(limits->all_reduces[4].n_ranks, 3);
  assert_int_equal(limits->all_reduces[4].n_bytes, 4096);
  double ours = find(&report, YK_MACHINE_ALL_REDUCE, "yoke", 3, 3, 4096)->us;
  double fused = find(&report, YK_MACHINE_ALL_REDUCE, "yoke, add and norm", 3, 3, 4096)->us;
  assert_true(limits->all_reduces[4].us == fmin(ours, fused));
  yk_machine_report_free(&report);
  yk_machine_report_free(&report);
  assert_null(report.rows);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static void check_fault(int fault, const char *message)
{
  yk_machine_options options = small_options();
  yk_machine_report report;
  options.n_ranks = 2;
  fault_of_4_kib = fault;
  assert_int_equal(yk_machine_measure(&options, &report, NULL), YK_OK);
  fault_of_4_kib = SOUND;
  const yk_machine_row *row = find(&report, YK_MACHINE_ALL_REDUCE, "yoke", 2, 3, 4096);
  assert_non_null(strstr(row->error, message));
  assert_true(row->us == 0 && row->rate == 0 && row->bus_rate == 0);
  for (size_t i = 0; i < report.n_rows; i++)
    if (&report.rows[i] != row) assert_string_equal(report.rows[i].error, "");
  assert_int_equal(report.limits.n_all_reduces, 3); /* for 4 KiB the other method remains */
  yk_machine_report_free(&report);
}

static void wrong_values_are_reported(void **state)
{
  (void)state;
  check_fault(WRONG_VALUE, "rank 1: 1 of 2048 values of an all-reduce are wrong: expected 3, found 5");
}

static void a_failure_stays_in_its_row(void **state)
{
  (void)state;
  check_fault(FAILS, "the line is dead");
}

static void too_little_memory(void **state)
{
  (void)state;
  yk_machine_options options = small_options();
  yk_machine_report report;
  options.memory_bytes = INT64_C(1) << 40;
  assert_int_equal(yk_machine_measure(&options, &report, NULL), YK_OK);
  const yk_machine_row *row = find(&report, YK_MACHINE_MEMORY, "read", 1, 3, 0);
  assert_non_null(strstr(row->error, "host memory: 1.00 TiB needed"));
  assert_non_null(strstr(row->error, "free"));
  assert_true(report.limits.memory_bytes_per_s == 0);
  assert_true(report.limits.gemm_flops > 0);
  yk_machine_report_free(&report);
}

static void check_refused(const yk_machine_options *options, yk_status status, const char *message)
{
  yk_machine_report report;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_machine_measure(options, &report, &err), status);
  if (!strstr(err.message, message)) fail_msg("expected \"%s\", found \"%s\"", message, err.message);
  assert_null(report.rows);
  yk_machine_report_free(&report);
}

#define REFUSED(field, value, message)                                                                                 \
  do {                                                                                                                 \
    yk_machine_options options = small_options();                                                                      \
    options.field = value;                                                                                             \
    check_refused(&options, YK_E_INVAL, message);                                                                      \
  } while (0)

static void refusals(void **state)
{
  (void)state;
  const int ids[] = {0, 0};
  REFUSED(device, (yk_device_kind)3, "device: expected 0 to 2, found 3");
  REFUSED(n_ranks, 0, "n_ranks: expected 1 to 64, found 0");
  REFUSED(n_ranks, 65, "n_ranks: expected 1 to 64, found 65");
  REFUSED(n_cpu_threads, -1, "n_cpu_threads: expected 0 to 1024, found -1");
  REFUSED(memory_bytes, -1, "memory_bytes: expected 1048576 to 1099511627776, found -1");
  REFUSED(memory_bytes, 1000, "memory_bytes: expected 1048576 to");
  REFUSED(all_reduce_max_bytes, 512, "all_reduce_max_bytes: expected 1024 to 1073741824, found 512");
  REFUSED(gemm_m, 65537, "gemm_m: expected 0 to 65536, found 65537");
  REFUSED(gemm_k, 200, "gemm_k, gemm_n: expected multiples of 128, found 200, 256");
  REFUSED(gemm_n, -128, "gemm_n: expected 0 to");
  REFUSED(all_reduce_max_bytes, (INT64_C(1) << 30) + 1, "all_reduce_max_bytes: expected 1024 to 1073741824");
  REFUSED(n_repeats, 2, "n_repeats: expected 3 to 100, found 2");
  REFUSED(n_devices, 2, "n_devices without device_ids: expected 0 to 0, found 2");
  REFUSED(device_ids, ids, "device_ids: names GPUs, but device is cpu");
  yk_machine_options options = small_options();
  int n_devices = 0;
  assert_int_equal(yk_device_list(NULL, 0, &n_devices, NULL), YK_OK);
  options.device = YK_DEVICE_CUDA;
  if (n_devices == 1) check_refused(&options, YK_E_UNSUPPORTED, "device cuda: this ");
  options.device_ids = ids;
  options.n_devices = 2;
  if (n_devices > 1) check_refused(&options, YK_E_INVAL, "GPU 0 is named twice");
}

static void names(void **state)
{
  (void)state;
  assert_string_equal(yk_machine_kind_name(YK_MACHINE_MEMORY), "memory");
  assert_string_equal(yk_machine_kind_name(YK_MACHINE_ALL_REDUCE), "all_reduce");
  assert_string_equal(yk_machine_kind_name((yk_machine_kind)-1), "unknown");
  assert_string_equal(yk_machine_kind_name((yk_machine_kind)5), "unknown");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_and_limits),   cmocka_unit_test(wrong_values_are_reported),
      cmocka_unit_test(too_little_memory), cmocka_unit_test(a_failure_stays_in_its_row),
      cmocka_unit_test(refusals),          cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

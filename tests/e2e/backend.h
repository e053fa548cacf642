/* backend.h - the device of a test's engines, chosen by the environment, and the guarantees of that device.
 *
 *   YOKE_TEST_DEVICE  cpu (default) or cuda
 *   YOKE_TEST_RANKS   1 to 8 ranks under every engine; by default 1 on cuda, and on cpu each test chooses
 *   YOKE_TEST_STAGES  pipeline stages of every engine; with it, YOKE_TEST_RANKS is a multiple
 *   YOKE_REQUIRE_GPU  N: fewer than N GPUs are a failure, and tests that need more than N skip
 *   YOKE_TESTS_DIR    the folder of golden/ and models/, if the program has been moved
 *
 * On CPU ranks, results have the same bits with any concurrent load. GPUs split their sums by the shape of a step, and
 * round AWQ weights only where it has many rows (never up to 16), so there log-probabilities agree within a tolerance,
 * and greedy tokens wherever the two best log-probabilities differ by more. */
#ifndef TESTS_E2E_BACKEND_H
#define TESTS_E2E_BACKEND_H

#include "yoke/yoke.h"

typedef struct test_backend {
  yk_device_kind kind;
  int n_ranks;           /* 0: each test chooses */
  int n_stages;          /* 0: one */
  yk_dtype_choice dtype; /* float32, on cuda float16 */
  float tolerance;      /* of a greedy token's log-probability, and the widest margin of a near tie; 0: the same bits */
  float rare_tolerance; /* of other tokens' log-probabilities and of raw logits, whose errors are larger */
} test_backend;

/* Tolerances and minimum number of ranks of a device. */
test_backend test_backend_of(yk_device_kind kind);
test_backend test_backend_chosen(void);

/* 0 to continue; else main's exit status, with the reason printed: 77 without the devices, 1 if they are required. */
int test_backend_gate(yk_device_kind kind, int n_ranks);

const char *test_data_dir(void);

#endif

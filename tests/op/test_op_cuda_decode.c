/* test_op_cuda_decode.c - all layers of a decode step as one operation of a GPU (kernels/decode_layers.h): outputs
 * against the CPU device's separate operations, the bits of repeated steps, and which layers and steps it takes. */
#include "op/op_cases_decode.h"
#include "op/op_cpu_target.h"
#include "op/op_cuda_paths.h"

/* Layers on a GPU, a sequence, and their prepared form. */
typedef struct gpu_side {
  decode_weights *weights;
  decode_model *model;
  decode_run *run;
  yk_decode_layers *layers; /* NULL: the GPU does not take the layers */
} gpu_side;

/* The same with the reference. */
typedef struct both_sides {
  decode_shape shape;
  yk_device *cpu_dev, *gpu_dev;
  decode_model *cpu_model;
  decode_run *cpu;
  gpu_side gpu;
  decode_result expected, found, composed; /* composed: the GPU's separate operations */
} both_sides;

/* 16 thread blocks share the tokens of a KV head, and each has 16 columns of every GEMM: a GPU with fewer
 * multiprocessors may refuse. All shapes that are taken have at least 256 hidden and 128 FFN columns for a KV head. */
static void check_is_taken(yk_device *dev, const decode_shape *shape, const yk_decode_layers *layers)
{
  enum { BLOCKS_OF_HEAD = 16 };
  const int32_t n_multiprocessors = yk_cuda_device_of(dev)->wna16.n_multiprocessors;
  if (layers) return;
  printf("%d KV heads are refused on %d multiprocessors\n", shape->n_kv_heads, n_multiprocessors);
  assert_true(BLOCKS_OF_HEAD * shape->n_kv_heads > n_multiprocessors);
}

static gpu_side gpu_side_new(yk_device *dev, const decode_shape *shape, int32_t most_tokens)
{
  gpu_side side = {.weights = decode_weights_new(shape, dev->dtype)};
  side.model = decode_model_new(dev, side.weights);
  side.run = decode_run_new(side.model, most_tokens);
  side.layers = decode_prepare(side.run, YK_KV_ACT);
  return side;
}

static void gpu_side_free(gpu_side *side)
{
  yk_device *dev = side->model->dev;
  dev->ops->decode_layers_destroy(dev, side->layers);
  decode_run_free(side->run);
  decode_model_free(side->model);
  decode_weights_free(side->weights);
}

/* For sequences of typically n_tokens tokens, at most most_tokens. */
static both_sides *both_sides_new(const op_target *target, yk_dtype dtype, const decode_shape *shape, int32_t n_tokens,
                                  int32_t most_tokens)
{
  const op_target cpu_target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  both_sides *sides = calloc(1, sizeof *sides);
  assert_non_null(sides);
  sides->shape = *shape;
  sides->shape.v_gain = decode_v_gain(n_tokens);
  sides->cpu_dev = op_device_new(&cpu_target, dtype, 4, 16);
  sides->gpu_dev = op_device_new(target, dtype, 1, 16);
  sides->gpu = gpu_side_new(sides->gpu_dev, &sides->shape, most_tokens);
  sides->cpu_model = decode_model_new(sides->cpu_dev, sides->gpu.weights);
  sides->cpu = decode_run_new(sides->cpu_model, most_tokens);
  sides->expected = decode_result_new(&sides->shape, dtype);
  sides->found = decode_result_new(&sides->shape, dtype);
  sides->composed = decode_result_new(&sides->shape, dtype);
  check_is_taken(sides->gpu_dev, shape, sides->gpu.layers);
  return sides;
}

static void both_sides_free(both_sides *sides)
{
  decode_result_free(&sides->expected), decode_result_free(&sides->found), decode_result_free(&sides->composed);
  decode_run_free(sides->cpu);
  decode_model_free(sides->cpu_model);
  gpu_side_free(&sides->gpu);
  sides->cpu_dev->ops->destroy(sides->cpu_dev);
  sides->gpu_dev->ops->destroy(sides->gpu_dev);
  free(sides);
}

static void run_layers(const gpu_side *side, const yk_decode_layers_args *args)
{
  yk_device *dev = side->model->dev;
  assert_true(dev->ops->decode_layers_takes(dev, side->layers, args->batch));
  op_ok(dev->ops->decode_layers_run(dev, side->layers, args, &err));
}

static yk_decode_layers_args args_of(const gpu_side *side)
{
  return (yk_decode_layers_args){
      .residual = side->run->residual.dev, .y = side->run->y.dev, .batch = &side->run->scene.batch};
}

static void launch(const gpu_side *side)
{
  const yk_decode_layers_args args = args_of(side);
  run_layers(side, &args);
}

/* Largest error of all outputs. */
static double largest_error(const decode_result *found, const decode_result *expected)
{
  double largest = 0.0;
  for (int i = 0; i < decode_n_outputs(found->shape); i++) largest = fmax(largest, decode_error(found, expected, i));
  return largest;
}

static void expect_step(both_sides *sides, int32_t position)
{
  decode_place(sides->cpu, position);
  decode_compose(sides->cpu);
  decode_fetch(sides->cpu, &sides->expected);
}

/* The number of wrong outputs of a step, of which found has those of the GPU. */
static int count_wrong(const both_sides *sides)
{
  const decode_shape *shape = &sides->shape;
  char what[160];
  snprintf(what, sizeof what, "%s, hidden %d, ffn %d, %d q heads, %d KV heads, %d layers, position %d",
           yk_dtype_name(sides->found.dtype), shape->hidden, shape->ffn, shape->n_q_heads, shape->n_kv_heads,
           shape->n_layers, sides->cpu->scene.positions[0]);
  return decode_count_wrong(&sides->found, &sides->expected, what);
}

static int count_wrong_at(both_sides *sides, int32_t position)
{
  expect_step(sides, position);
  decode_place(sides->gpu.run, position);
  launch(&sides->gpu);
  decode_fetch(sides->gpu.run, &sides->found);
  return count_wrong(sides);
}

/* One step, in which the sequence grows to n_tokens tokens. Errors are printed, those of separate operations too. */
static int count_wrong_of_step(const op_target *target, yk_dtype dtype, const decode_shape *shape, int32_t n_tokens)
{
  int n_wrong = 0;
  both_sides *sides = both_sides_new(target, dtype, shape, n_tokens, n_tokens);
  if (sides->gpu.layers) {
    decode_fill(sides->cpu, n_tokens - 1);
    decode_fill(sides->gpu.run, n_tokens - 1);
    n_wrong = count_wrong_at(sides, n_tokens - 1);
    decode_place(sides->gpu.run, n_tokens - 1);
    decode_compose(sides->gpu.run);
    decode_fetch(sides->gpu.run, &sides->composed);
    printf("%s, hidden %d, ffn %d, heads %d and %d, layers %d, tokens %d: residual %.2g, largest %.2g; separate "
           "operations %.2g, %.2g; between the two %.2g, %.2g\n",
           yk_dtype_name(dtype), shape->hidden, shape->ffn, shape->n_q_heads, shape->n_kv_heads, shape->n_layers,
           n_tokens, decode_error(&sides->found, &sides->expected, 0), largest_error(&sides->found, &sides->expected),
           decode_error(&sides->composed, &sides->expected, 0), largest_error(&sides->composed, &sides->expected),
           decode_error(&sides->found, &sides->composed, 0), largest_error(&sides->found, &sides->composed));
  }
  both_sides_free(sides);
  return n_wrong;
}

#define GATED_GELU                                                                                                     \
  {                                                                                                                    \
    YK_ACTIVATION_GELU_TANH, true, 0, 0                                                                                \
  }
#define CLAMPED_SWIGLU                                                                                                 \
  {                                                                                                                    \
    YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 1.25f                                                                  \
  }

/* Tokens of a step's sequence, and the layers: hidden, ffn, q heads, KV heads, layers; activation, biases, norms of q
 * and k, no final norm, alpha. Numbers of thread blocks from 16 to all multiprocessors, one thread block with many
 * columns, rows of more than 4096 residuals. */
static const struct {
  int32_t n_tokens;
  decode_shape shape;
} cases[] = {
    {17, {512, 1408, 4, 2, 1, YK_GATED_SILU, DECODE_NO_BIASES, false, false, 1.0f, .group = 0}},
    {100, {768, 3072, 2, 2, 3, GATED_GELU, DECODE_ALL_BIASES, true, true, 0.5f, .group = 0}},
    {257, {1024, 1408, 8, 1, 2, YK_GATED_SILU, DECODE_QKV_BIASES, false, false, 1.0f, .group = 0}},
    {1000, {640, 1408, 5, 1, 3, CLAMPED_SWIGLU, DECODE_QV_BIASES, true, false, 0.22f, .group = 0}},
    {513, {512, 1408, 16, 2, 2, YK_GATED_SILU, DECODE_NO_BIASES, true, false, 1.0f, .group = 0}},
    {300, {1152, 1408, 28, 4, 2, YK_GATED_SILU, DECODE_QKV_BIASES, false, false, 1.0f, .group = 0}},
    {600, {2304, 1408, 32, 8, 1, YK_GATED_SILU, DECODE_NO_BIASES, true, false, 1.0f, .group = 0}},
    {31, {2048, 3072, 16, 8, 1, GATED_GELU, DECODE_ALL_BIASES, false, true, 1.5f, .group = 0}},
    {16, {4224, 256, 2, 1, 2, YK_GATED_SILU, DECODE_NO_BIASES, false, false, 1.0f, .group = 0}},
    {40, {512, 6144, 6, 2, 1, YK_GATED_SILU, DECODE_ALL_BIASES, false, false, 1.0f, .group = 0}},
    {2, {256, 256, 1, 1, 3, CLAMPED_SWIGLU, DECODE_ALL_BIASES, true, false, 1.0f, .group = 0}},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_FEW_CASES = 4 };

static int count_wrong_cases(const op_target *target, int n_cases)
{
  int n_wrong = 0;
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
    for (int c = 0; each_case(c, c < n_cases); c++)
      n_wrong += count_wrong_of_step(target, gpu_dtypes[d], &cases[c].shape, cases[c].n_tokens);
  return n_wrong;
}

static void test_shapes(void **state)
{
  assert_int_equal(count_wrong_cases(*state, N_CASES), 0);
}

static void test_few_shapes(void **state)
{
  assert_int_equal(count_wrong_cases(*state, N_FEW_CASES), 0);
}

static const decode_shape small_shape = {512, 1408, 4, 2, 2, YK_GATED_SILU, 0, true, false, 1.0f, .group = 0};

/* Ends of pages, of thread blocks' shares, and of the pages that a warp reads at a time. */
static void test_lengths(void **state)
{
  static const int32_t lengths[] = {1, 2, 15, 16, 17, 33, 100, 255, 256, 257, 513, 1000, 2049};
  int n_wrong = 0;
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
    for (size_t i = 0; each_case(i, i < sizeof lengths / sizeof *lengths); i++) {
      decode_shape shape = small_shape;
      shape.n_layers = 1 + (int32_t)(i + (size_t)d) % 2;
      n_wrong += count_wrong_of_step(*state, gpu_dtypes[d], &shape, lengths[i]);
    }
  assert_int_equal(n_wrong, 0);
}

/* The most tokens of a sequence that a step may have. */
static int32_t longest_taken(const gpu_side *side)
{
  yk_device *dev = side->model->dev;
  yk_batch batch = side->run->scene.batch;
  int32_t taken = 1, refused = INT32_MAX;
  batch.max_kv_tokens = refused;
  assert_false(dev->ops->decode_layers_takes(dev, side->layers, &batch));
  while (refused - taken > 1) {
    batch.max_kv_tokens = taken + (refused - taken) / 2;
    if (dev->ops->decode_layers_takes(dev, side->layers, &batch))
      taken = batch.max_kv_tokens;
    else
      refused = batch.max_kv_tokens;
  }
  return taken;
}

static void test_longest_sequences(void **state)
{
  enum { LEAST = 4096, MOST = 16384 }; /* of the reference */
  static const decode_shape shapes[] = {
      {512, 256, 4, 2, 1, YK_GATED_SILU, DECODE_NO_BIASES, false, false, 1.0f, .group = 0},
      {1024, 512, 28, 4, 1, YK_GATED_SILU, DECODE_QKV_BIASES, false, false, 1.0f, .group = 0},
  };
  int n_wrong = 0;
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
    for (size_t i = 0; each_case(i, i < sizeof shapes / sizeof *shapes); i++) {
      yk_device *dev = op_device_new(*state, gpu_dtypes[d], 1, 16);
      gpu_side side = gpu_side_new(dev, &shapes[i], 16);
      check_is_taken(dev, &shapes[i], side.layers);
      const int32_t longest = side.layers ? longest_taken(&side) : 0;
      gpu_side_free(&side);
      dev->ops->destroy(dev);
      if (longest == 0) continue;
      printf("%d q heads, %d KV heads: sequences of up to %d tokens\n", shapes[i].n_q_heads, shapes[i].n_kv_heads,
             longest);
      assert_true(longest >= LEAST);
      const int32_t n_tokens = longest < MOST ? longest : MOST;
      n_wrong += count_wrong_of_step(*state, gpu_dtypes[d], &shapes[i], n_tokens - (int32_t)(i % 2));
    }
  assert_int_equal(n_wrong, 0);
}

/* One prepared form through consecutive steps, each of which reads what the steps before it left in the caches. */
static void test_consecutive_steps(void **state)
{
  enum { N_STEPS = 40 };
  static const int32_t first_positions[] = {0, 240, 2030};
  int n_wrong = 0;
  for (int i = 0; each_case(i, i < 3); i++) {
    const int32_t first = first_positions[i];
    both_sides *sides = both_sides_new(*state, gpu_dtypes[i % 2], &small_shape, first + N_STEPS / 2, first + N_STEPS);
    assert_non_null(sides->gpu.layers);
    decode_fill(sides->cpu, first);
    decode_fill(sides->gpu.run, first);
    for (int32_t step = 0; each_case(step, step < N_STEPS); step++) n_wrong += count_wrong_at(sides, first + step);
    both_sides_free(sides);
  }
  assert_int_equal(n_wrong, 0);
}

/* A recorded step, repeated at other positions of the sequence. */
static void test_recorded_steps(void **state)
{
  static const int32_t positions[] = {5, 699, 300, 17, 256, 0, 255, 511, 512, 698};
  int n_wrong = 0;
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++) {
    both_sides *sides = both_sides_new(*state, gpu_dtypes[d], &small_shape, 300, 700);
    yk_device *dev = sides->gpu_dev;
    yk_graph *graph = NULL;
    assert_non_null(sides->gpu.layers);
    decode_fill(sides->cpu, 699);
    decode_fill(sides->gpu.run, 699);
    n_wrong += count_wrong_at(sides, 699);
    op_ok(dev->ops->graph_begin(dev, &err));
    launch(&sides->gpu);
    op_ok(dev->ops->graph_end(dev, &graph, &err));
    for (size_t i = 0; each_case(i, i < sizeof positions / sizeof *positions); i++) {
      expect_step(sides, positions[i]);
      decode_place(sides->gpu.run, positions[i]);
      op_ok(dev->ops->graph_run(dev, graph, &err));
      decode_fetch(sides->gpu.run, &sides->found);
      n_wrong += count_wrong(sides);
    }
    dev->ops->graph_destroy(dev, graph);
    both_sides_free(sides);
  }
  assert_int_equal(n_wrong, 0);
}

/* Prints the outputs with other bits; returns their number. */
static int count_different(const decode_result *found, const decode_result *expected, int repetition)
{
  const size_t element_bytes = yk_dtype_bytes(found->dtype);
  int n_different = 0;
  for (int i = 0; i < decode_n_outputs(found->shape); i++) {
    char name[32];
    size_t first, n_elements = 0;
    const size_t n = decode_output(found->shape, i, &first);
    for (size_t at = first; at < first + n; at++)
      n_elements += memcmp(found->bytes + at * element_bytes, expected->bytes + at * element_bytes, element_bytes) != 0;
    if (n_elements == 0) continue;
    printf("repetition %d, %s: %zu of %zu elements have other bits\n", repetition, decode_output_name(i, name),
           n_elements, n);
    n_different++;
  }
  return n_different;
}

static const struct {
  int32_t n_tokens;
  decode_shape shape;
} repeated[] = {
    {300, {512, 1408, 4, 2, 3, YK_GATED_SILU, DECODE_NO_BIASES, true, false, 1.0f, .group = 0}},
    {700, {1152, 1408, 28, 4, 1, YK_GATED_SILU, DECODE_QKV_BIASES, false, false, 1.0f, .group = 0}},
    {9, {2048, 1408, 16, 8, 2, YK_GATED_SILU, DECODE_NO_BIASES, false, false, 1.0f, .group = 0}},
};
enum { N_REPEATED = sizeof repeated / sizeof *repeated };

/* The layers of a case at the last token of a filled sequence. */
static gpu_side repeated_side_new(yk_device *dev, int i)
{
  gpu_side side = gpu_side_new(dev, &repeated[i].shape, repeated[i].n_tokens);
  assert_non_null(side.layers);
  decode_fill(side.run, repeated[i].n_tokens - 1);
  return side;
}

static void run_repeated(const gpu_side *side, int i, decode_result *result)
{
  decode_place(side->run, repeated[i].n_tokens - 1);
  launch(side);
  decode_fetch(side->run, result);
}

static void test_same_bits_again(void **state)
{
  enum { N_REPETITIONS = 200 };
  int n_different = 0;
  for (int i = 0; each_case(i, i < N_REPEATED); i++) {
    yk_device *dev = op_device_new(*state, gpu_dtypes[i % 2], 1, 16);
    gpu_side side = repeated_side_new(dev, i);
    decode_result first = decode_result_new(&repeated[i].shape, dev->dtype), again = first;
    again = decode_result_new(&repeated[i].shape, dev->dtype);
    run_repeated(&side, i, &first);
    for (int repetition = 1; repetition <= N_REPETITIONS; repetition++) {
      run_repeated(&side, i, &again);
      n_different += count_different(&again, &first, repetition);
    }
    decode_result_free(&first), decode_result_free(&again);
    gpu_side_free(&side);
    dev->ops->destroy(dev);
  }
  assert_int_equal(n_different, 0);
}

/* The residual of one step is the input of the next, with or without a wait between the two. */
static void test_same_bits_without_waits(void **state)
{
  enum { N_STEPS = 20, N_TURNS = 10 };
  int n_different = 0;
  for (int i = 0; each_case(i, i < N_REPEATED); i++) {
    yk_device *dev = op_device_new(*state, gpu_dtypes[(i + 1) % 2], 1, 16);
    gpu_side side = repeated_side_new(dev, i);
    decode_result results[2] = {decode_result_new(&repeated[i].shape, dev->dtype),
                                decode_result_new(&repeated[i].shape, dev->dtype)};
    for (int turn = 0; turn <= N_TURNS; turn++) { /* the first waits */
      decode_place(side.run, repeated[i].n_tokens - 1);
      op_ok(dev->ops->sync(dev, &err));
      for (int step = 0; step < N_STEPS; step++) {
        launch(&side);
        if (turn == 0) op_ok(dev->ops->sync(dev, &err));
      }
      decode_fetch(side.run, &results[turn > 0]);
      if (turn > 0) n_different += count_different(&results[1], &results[0], turn);
    }
    decode_result_free(&results[0]), decode_result_free(&results[1]);
    gpu_side_free(&side);
    dev->ops->destroy(dev);
  }
  assert_int_equal(n_different, 0);
}

/* A timed step has the bits of a step without stamps. Its parts begin one after the other, between the stamps of
 * operations before and after the step. */
static void test_stamps(void **state)
{
  enum { MOST = DECODE_MAX_LAYERS * YK_DECODE_N_PARTS + 2 };
  for (int i = 0; each_case(i, i < N_REPEATED); i++) {
    yk_device *dev = op_device_new(*state, gpu_dtypes[i % 2], 1, 16);
    gpu_side side = repeated_side_new(dev, i);
    const int32_t n = repeated[i].shape.n_layers * YK_DECODE_N_PARTS;
    decode_result plain = decode_result_new(&repeated[i].shape, dev->dtype);
    decode_result timed = decode_result_new(&repeated[i].shape, dev->dtype);
    int64_t stamps[MOST], *memory;
    void *allocated = NULL;
    op_ok(dev->ops->alloc(dev, sizeof stamps, &allocated, &err));
    memory = allocated;
    run_repeated(&side, i, &plain);
    decode_place(side.run, repeated[i].n_tokens - 1);
    op_ok(dev->ops->timestamp(dev, memory, &err));
    yk_decode_layers_args args = args_of(&side);
    args.stamps = memory + 1;
    run_layers(&side, &args);
    op_ok(dev->ops->timestamp(dev, memory + 1 + n, &err));
    decode_fetch(side.run, &timed);
    op_ok(dev->ops->download(dev, stamps, memory, (size_t)(n + 2) * sizeof *stamps, &err));
    for (int32_t part = 0; part <= n; part++) assert_true(stamps[part] > 0 && stamps[part] <= stamps[part + 1]);
    assert_true(stamps[n + 1] - stamps[0] < 1000000000);
    assert_int_equal(count_different(&timed, &plain, 0), 0);
    dev->ops->free(dev, memory);
    decode_result_free(&plain), decode_result_free(&timed);
    gpu_side_free(&side);
    dev->ops->destroy(dev);
  }
}

/* Two models of one device, whose steps alternate without waits. */
static void test_two_prepared_forms(void **state)
{
  enum { N_TURNS = 20 };
  int n_different = 0;
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++) {
    yk_device *dev = op_device_new(*state, gpu_dtypes[d], 1, 16);
    gpu_side sides[2];
    decode_result alone[2], found[2];
    for (int i = 0; i < 2; i++) {
      sides[i] = repeated_side_new(dev, i);
      alone[i] = decode_result_new(&repeated[i].shape, dev->dtype);
      found[i] = decode_result_new(&repeated[i].shape, dev->dtype);
      run_repeated(&sides[i], i, &alone[i]);
    }
    for (int turn = 1; turn <= N_TURNS; turn++) {
      for (int i = 0; i < 2; i++) decode_place(sides[i].run, repeated[i].n_tokens - 1);
      for (int i = 0; i < 2; i++) launch(&sides[(i + turn) % 2]);
      for (int i = 0; i < 2; i++) decode_fetch(sides[i].run, &found[i]);
      for (int i = 0; i < 2; i++) n_different += count_different(&found[i], &alone[i], turn);
    }
    for (int i = 0; i < 2; i++) {
      decode_result_free(&alone[i]), decode_result_free(&found[i]);
      gpu_side_free(&sides[i]);
    }
    dev->ops->destroy(dev);
  }
  assert_int_equal(n_different, 0);
}

/* Layers without a kernel, next to those that the GPU takes. */
static void test_refused_layers(void **state)
{
  static const decode_shape taken = {512, 256, 4, 2, 1, YK_GATED_SILU, 0, false, false, 1.0f, .group = 0};
  enum { TAKEN, GROUPS_OF_64, HEADS_OF_64, NINE_HEADS, PLAIN, TWO_GEMMS, CODES, N_KINDS };
  for (int kind = TAKEN; each_case(kind, kind < N_KINDS); kind++) {
    decode_shape shape = taken;
    if (kind == GROUPS_OF_64) shape.group = 64;
    if (kind == HEADS_OF_64) shape.head_dim = 64;
    if (kind == NINE_HEADS) shape.n_q_heads = 9, shape.n_kv_heads = 1;
    if (kind == PLAIN) shape.is_plain = true;
    if (kind == TWO_GEMMS) shape.group_of_k = 64;
    yk_device *dev = op_device_new(*state, YK_F16, 1, 16);
    decode_weights *weights = decode_weights_new(&shape, YK_F16);
    decode_model *model = decode_model_new(dev, weights);
    decode_run *run = decode_run_new(model, 16);
    yk_decode_layers *layers = decode_prepare(run, kind == CODES ? YK_KV_INT8 : YK_KV_ACT);
    assert_int_equal(layers != NULL, kind == TAKEN);
    dev->ops->decode_layers_destroy(dev, layers);
    decode_run_free(run);
    decode_model_free(model);
    decode_weights_free(weights);
    dev->ops->destroy(dev);
  }
}

static void test_refused_steps(void **state)
{
  yk_device *dev = op_device_new(*state, YK_F16, 1, 16);
  gpu_side side = gpu_side_new(dev, &small_shape, 16);
  assert_non_null(side.layers);
  const yk_batch taken = side.run->scene.batch;
  const int32_t longest = longest_taken(&side);
  enum { TAKEN, LONGEST, TWO_SEQUENCES, TWO_ROWS, TOO_LONG, ADAPTERS, N_KINDS };
  for (int kind = TAKEN; each_case(kind, kind < N_KINDS); kind++) {
    yk_batch batch = taken;
    if (kind == LONGEST) batch.max_kv_tokens = longest;
    if (kind == TWO_SEQUENCES) batch.n_tokens = batch.n_seqs = 2;
    if (kind == TWO_ROWS) batch.n_tokens = batch.max_rows_per_seq = 2;
    if (kind == TOO_LONG) batch.max_kv_tokens = longest + 1;
    if (kind == ADAPTERS) batch.adapters = batch.positions;
    assert_int_equal(dev->ops->decode_layers_takes(dev, side.layers, &batch), kind <= LONGEST);
  }
  gpu_side_free(&side);
  dev->ops->destroy(dev);
}

int main(int argc, char **argv)
{
  const op_target *target = cuda_target_of(argc, argv);
  yk_cuda_device_info info;
  int gate = gpu_gate(1);
  if (!target || gate != GPU_GO) return target ? gate : GPU_FAIL;
  if (yk_cuda_device_query(0, &info, NULL) != YK_OK) return GPU_FAIL;
  if (info.compute_major != 9) {
    printf("skipped, needs a GPU of compute capability 9.0, found %d.%d\n", info.compute_major, info.compute_minor);
    return GPU_SKIP;
  }
  const struct CMUnitTest tests[] = {
      ON_TARGET(test_shapes, target),
      ON_TARGET(test_lengths, target),
      ON_TARGET(test_consecutive_steps, target),
      ON_TARGET(test_recorded_steps, target),
      /* The next do not depend on the restrictions. */
      ON_TARGET(test_longest_sequences, target),
      ON_TARGET(test_same_bits_again, target),
      ON_TARGET(test_same_bits_without_waits, target),
      ON_TARGET(test_stamps, target),
      ON_TARGET(test_two_prepared_forms, target),
      ON_TARGET(test_refused_layers, target),
      ON_TARGET(test_refused_steps, target),
  };
  enum { N_TESTS = sizeof tests / sizeof *tests, N_INDEPENDENT = 7 };
  const struct CMUnitTest small[] = {ON_TARGET(test_few_shapes, target), ON_TARGET(test_refused_layers, target)};
  if (gpu_is_small()) return cmocka_run_group_tests(small, NULL, NULL);
  if (target == &cuda_target) return cmocka_run_group_tests(tests, NULL, NULL);
  return _cmocka_run_group_tests("on a restricted GPU", tests, N_TESTS - N_INDEPENDENT, NULL, NULL);
}

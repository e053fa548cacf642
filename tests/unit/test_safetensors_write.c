/* Written files equal those of public packages and can be read back; an interrupted write leaves no partial file. */
#include "unit/loader_fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "each_case.h"
#include "loader/safetensors/safetensors_write.h"
#include "loader/safetensors/shards.h"

/* As in golden/make_safetensors_goldens.py; byte j of tensor i is 7 i + j. */
static const yk_tensor tensors[] = {
    {.name = "layers.0.bias", .dtype = YK_TENSOR_F32, .n_dims = 1, .shape = {3}},
    {.name = "layers.0.qweight", .dtype = YK_TENSOR_I32, .n_dims = 2, .shape = {4, 2}},
    {.name = "norm.weight", .dtype = YK_TENSOR_BF16, .n_dims = 3, .shape = {2, 1, 3}},
    {.name = "a \"quoted\"\n name", .dtype = YK_TENSOR_F16, .n_dims = 1, .shape = {5}},
    {.name = "none", .dtype = YK_TENSOR_I8, .n_dims = 2, .shape = {0, 7}},
    {.name = "scalar", .dtype = YK_TENSOR_BOOL, .n_dims = 0},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors, DATA_BYTES = 67, GOLDEN_SHARD_BYTES = 44 };

static yk_status open_writer(const temp_dir *dir, int64_t shard_bytes, yk_safetensors_writer **writer, yk_err *err)
{
  return yk_safetensors_writer_open(dir->path, tensors, N_TENSORS, shard_bytes, writer, err);
}

/* Writes the list's data in pieces of the given size. */
static yk_status put_all(yk_safetensors_writer *writer, size_t piece_bytes, yk_err *err)
{
  for (size_t i = 0; i < N_TENSORS; i++) {
    uint8_t bytes[64];
    uint64_t n_bytes;
    assert_true(yk_tensor_bytes(&tensors[i], &n_bytes));
    for (size_t j = 0; j < n_bytes; j++) bytes[j] = (uint8_t)(7 * i + j);
    for (size_t at = 0; at < n_bytes; at += piece_bytes) {
      size_t piece = n_bytes - at < piece_bytes ? n_bytes - at : piece_bytes;
      YK_TRY(yk_safetensors_writer_put(writer, bytes + at, piece, err));
    }
  }
  return YK_OK;
}

static void write_all(const temp_dir *dir, int64_t shard_bytes, size_t piece_bytes)
{
  yk_err err = YK_ERR_INIT;
  yk_safetensors_writer *writer;
  expect_ok("open", open_writer(dir, shard_bytes, &writer, &err), &err);
  expect_ok("put", put_all(writer, piece_bytes, &err), &err);
  expect_ok("finish", yk_safetensors_writer_finish(writer, &err), &err);
  yk_safetensors_writer_close(writer);
}

static void expect_same_file(const char *golden_dir, const temp_dir *dir, const char *name)
{
  char path[512], *golden, *found;
  size_t golden_bytes, found_bytes;
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, "%s/golden/safetensors/%s/%s", YOKE_TESTS_DIR, golden_dir, name);
  expect_ok(name, yk_file_read(path, 1 << 20, &golden, &golden_bytes, &err), &err);
  snprintf(path, sizeof path, "%s/%s", dir->path, name);
  expect_ok(name, yk_file_read(path, 1 << 20, &found, &found_bytes, &err), &err);
  assert_int_equal(found_bytes, golden_bytes);
  assert_memory_equal(found, golden, golden_bytes);
  free(golden);
  free(found);
}

static void bytes_are_those_of_public_packages(void **state)
{
  (void)state;
  for (size_t piece_bytes = 1; piece_bytes <= 64; piece_bytes += 21) {
    temp_dir dir = temp_dir_make();
    write_all(&dir, DATA_BYTES, piece_bytes);
    assert_int_equal(n_entries(&dir), 1);
    expect_same_file("single", &dir, "model.safetensors");
    temp_dir_remove(&dir);
    dir = temp_dir_make();
    write_all(&dir, GOLDEN_SHARD_BYTES, piece_bytes);
    assert_int_equal(n_entries(&dir), 3);
    expect_same_file("sharded", &dir, "model-00001-of-00002.safetensors");
    expect_same_file("sharded", &dir, "model-00002-of-00002.safetensors");
    expect_same_file("sharded", &dir, "model.safetensors.index.json");
    temp_dir_remove(&dir);
  }
}

/* Every shard size gives the same tensors; a tensor larger than a shard has one to itself. */
static void any_shard_size_reads_back(void **state)
{
  (void)state;
  for (int64_t shard_bytes = 1; shard_bytes <= DATA_BYTES; shard_bytes += 11) {
    temp_dir dir = temp_dir_make();
    write_all(&dir, shard_bytes, 64);
    if (shard_bytes == 1) assert_int_equal(n_entries(&dir), 1 + 5); /* empty tensors go with the one before */
    yk_err err = YK_ERR_INIT;
    yk_shards *shards;
    expect_ok("read", yk_shards_open(dir.path, NULL, &shards, &err), &err);
    assert_int_equal(yk_shards_count(shards), N_TENSORS);
    for (size_t i = 0; i < N_TENSORS; i++) {
      const yk_tensor *found = yk_shards_find(shards, tensors[i].name, NULL);
      assert_non_null(found);
      assert_int_equal(found->dtype, tensors[i].dtype);
      assert_int_equal(found->n_dims, tensors[i].n_dims);
      assert_memory_equal(found->shape, tensors[i].shape, sizeof found->shape);
      for (size_t j = 0; j < found->n_bytes; j++)
        assert_int_equal(((const uint8_t *)found->data)[j], (uint8_t)(7 * i + j));
    }
    yk_shards_close(shards);
    temp_dir_remove(&dir);
  }
}

static void no_tensors_are_a_file(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_safetensors_writer *writer;
  yk_shards *shards;
  expect_ok("open", yk_safetensors_writer_open(dir.path, NULL, 0, 1, &writer, &err), &err);
  expect_error("put", YK_E_INVAL, "no more data, found 3 bytes", yk_safetensors_writer_put(writer, "abc", 3, &err),
               &err);
  expect_ok("finish", yk_safetensors_writer_finish(writer, &err), &err);
  yk_safetensors_writer_close(writer);
  expect_ok("read", yk_shards_open(dir.path, NULL, &shards, &err), &err);
  assert_int_equal(yk_shards_count(shards), 0);
  yk_shards_close(shards);
  temp_dir_remove(&dir);
}

/* At any progress: no unfinished file remains. */
static void a_stopped_run_leaves_no_files(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  for (size_t stop = 0; stop <= DATA_BYTES; stop += 6) {
    yk_err err = YK_ERR_INIT;
    yk_safetensors_writer *writer;
    expect_ok("open", open_writer(&dir, 1, &writer, &err), &err);
    size_t left = stop;
    for (size_t i = 0; i < N_TENSORS; i++) {
      uint64_t n_bytes;
      yk_tensor_bytes(&tensors[i], &n_bytes);
      size_t piece = n_bytes < left ? n_bytes : left;
      expect_ok("put", yk_safetensors_writer_put(writer, "................................", piece, &err), &err);
      left -= piece;
    }
    if (stop < DATA_BYTES)
      expect_error("finish", YK_E_INVAL, "bytes, found", yk_safetensors_writer_finish(writer, &err), &err);
    yk_safetensors_writer_close(writer);
    assert_int_equal(n_entries(&dir), 0);
  }
  yk_safetensors_writer_close(NULL);
  temp_dir_remove(&dir);
}

static void data_beyond_a_tensor_is_refused(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_safetensors_writer *writer;
  expect_ok("open", open_writer(&dir, YK_SHARD_BYTES, &writer, &err), &err);
  expect_ok("put", yk_safetensors_writer_put(writer, "0123456", 7, &err), &err);
  expect_error("put", YK_E_INVAL, "tensor layers.0.bias|at most 5 more bytes, found 6",
               yk_safetensors_writer_put(writer, "012345", 6, &err), &err);
  expect_error("finish", YK_E_INVAL, "tensor layers.0.bias|expected 12 bytes, found 7",
               yk_safetensors_writer_finish(writer, &err), &err);
  yk_safetensors_writer_close(writer);
  temp_dir_remove(&dir);
}

static void bad_lists_are_refused(void **state)
{
  (void)state;
  static const struct {
    yk_status status;
    const char *words;
    int64_t shard_bytes;
    yk_tensor tensors[2];
  } cases[] = {
      {YK_E_INVAL, "tensor a|expected once, found twice", 1, {{.name = "a"}, {.name = "a"}}},
      {YK_E_INVAL, "tensor __metadata__|safetensors reserves this one", 1, {{.name = "__metadata__"}, {.name = "b"}}},
      {YK_E_INVAL, "tensor b|whole number of bytes", 1, {{.name = "a"}, {.name = "b", .n_dims = 1, .shape = {-1}}}},
      {YK_E_INVAL, "tensor a|whole number of bytes", 1, {{.name = "a", .n_dims = 9}, {.name = "b"}}},
      {YK_E_INVAL, "tensor a|whole number of bytes", 1, {{.name = "a", .n_dims = -1}, {.name = "b"}}},
      {YK_E_INVAL,
       "tensor a|whole number of bytes",
       1,
       {{.name = "a", .n_dims = 2, .shape = {INT64_C(1) << 40, INT64_C(1) << 40}}, {.name = "b"}}},
      {YK_E_INVAL,
       "tensor a|whole number of bytes",
       1,
       {{.name = "a", .dtype = YK_TENSOR_F4, .n_dims = 1, .shape = {3}}, {.name = "b"}}},
      {YK_E_INVAL, "shard size|at least 1 byte, found 0", 0, {{.name = "a"}, {.name = "b"}}},
      {YK_E_IO,
       "room for 1152921504606846977 bytes|free",
       1,
       {{.name = "a"}, {.name = "b", .n_dims = 1, .shape = {INT64_C(1) << 60}}}},
  };
  temp_dir dir = temp_dir_make();
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_err err = YK_ERR_INIT;
    yk_safetensors_writer *writer;
    yk_status status = yk_safetensors_writer_open(dir.path, cases[i].tensors, 2, cases[i].shard_bytes, &writer, &err);
    expect_error(cases[i].words, cases[i].status, cases[i].words, status, &err);
    assert_int_equal(n_entries(&dir), 0);
  }
  temp_dir_remove(&dir);
}

static void other_files_stay(void **state)
{
  (void)state;
  static const char *const names[] = {"model.safetensors", "model-00001-of-00009.safetensors",
                                      "model.safetensors.index.json"};
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_safetensors_writer *writer;
  for (size_t i = 0; each_case(i, i < sizeof names / sizeof *names); i++) {
    write_text(&dir, names[i], "mine");
    expect_error(names[i], YK_E_IO, names[i], open_writer(&dir, YK_SHARD_BYTES, &writer, &err), &err);
    remove_file(&dir, names[i]);
    assert_int_equal(n_entries(&dir), 0);
  }
  write_text(&dir, "config.json", "{}");
  write_all(&dir, YK_SHARD_BYTES, 64);
  temp_dir_remove(&dir);
  expect_error("no directory", YK_E_IO, "No such file", open_writer(&dir, YK_SHARD_BYTES, &writer, &err), &err);
}

/* A disk that fills up while data is written: here by the limit on the size of a file. */
static void a_full_disk_is_named(void **state)
{
  (void)state;
  struct rlimit before, limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t n_bytes = 0; n_bytes < 500; n_bytes += 50) { /* in the header, then in the data */
    temp_dir dir = temp_dir_make();
    yk_err err = YK_ERR_INIT;
    yk_safetensors_writer *writer;
    limit = before;
    limit.rlim_cur = n_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    yk_status status = open_writer(&dir, YK_SHARD_BYTES, &writer, &err);
    if (status == YK_OK) {
      status = put_all(writer, 64, &err);
      yk_safetensors_writer_close(writer);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_error("full", YK_E_IO, "/model.safetensors: File too large", status, &err);
    assert_int_equal(n_entries(&dir), 0);
    temp_dir_remove(&dir);
  }
}

/* A name that is taken at the end: already renamed files are renamed back. */
static void a_taken_name_undoes_all(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  char path[128];
  snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", dir.path);
  yk_err err = YK_ERR_INIT;
  yk_safetensors_writer *writer;
  expect_ok("open", open_writer(&dir, GOLDEN_SHARD_BYTES, &writer, &err), &err);
  expect_ok("put", put_all(writer, 64, &err), &err);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_error("finish", YK_E_IO, "/model-00002-of-00002.safetensors", yk_safetensors_writer_finish(writer, &err),
               &err);
  yk_safetensors_writer_close(writer);
  assert_int_equal(n_entries(&dir), 1);
  assert_int_equal(rmdir(path), 0);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_those_of_public_packages),
      cmocka_unit_test(any_shard_size_reads_back),
      cmocka_unit_test(no_tensors_are_a_file),
      cmocka_unit_test(a_stopped_run_leaves_no_files),
      cmocka_unit_test(data_beyond_a_tensor_is_refused),
      cmocka_unit_test(bad_lists_are_refused),
      cmocka_unit_test(other_files_stay),
      cmocka_unit_test(a_full_disk_is_named),
      cmocka_unit_test(a_taken_name_undoes_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

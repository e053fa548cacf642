/* safetensors files: good files have their views, and each rule of the format refuses its violations. */
#include "unit/loader_fixture.h"

#include "each_case.h"
#include "loader/safetensors/safetensors.h"

static const uint8_t zeros[64];

/* The tensor of that name, or NULL. */
static const yk_tensor *find(const yk_safetensors *file, const char *name)
{
  for (size_t i = 0; i < yk_safetensors_count(file); i++)
    if (strcmp(yk_safetensors_at(file, i)->name, name) == 0) return yk_safetensors_at(file, i);
  return NULL;
}

static void good_file_gives_views(void **state)
{
  (void)state;
  static const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  /* Not in order of offset; padded with spaces, as writers do; data at an odd address. */
  yk_strbuf image = safetensors_image("{\"__metadata__\":{\"format\":\"pt\"},"
                                      "\"b\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[2,10]},"
                                      "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
                                      "\"empty\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[2,2]}}   ",
                                      data, sizeof data);
  temp_dir dir = temp_dir_make();
  write_file(&dir, "x.safetensors", image.data, image.length);
  char path[128];
  snprintf(path, sizeof path, "%s/x.safetensors", dir.path);

  yk_err err = YK_ERR_INIT;
  yk_safetensors *file;
  expect_ok("open", yk_safetensors_open(path, &file, &err), &err);
  assert_int_equal(yk_safetensors_count(file), 3);
  assert_string_equal(yk_safetensors_at(file, 0)->name, "a");
  const yk_tensor *a = find(file, "a"), *b = find(file, "b");
  assert_int_equal(a->dtype, YK_TENSOR_BF16);
  assert_int_equal(a->n_dims, 0);
  assert_int_equal(a->n_bytes, 2);
  assert_memory_equal(a->data, data, 2);
  assert_int_equal(b->dtype, YK_TENSOR_I32);
  assert_int_equal(b->n_dims, 2);
  assert_int_equal(b->shape[0], 1);
  assert_int_equal(b->shape[1], 2);
  assert_memory_equal(b->data, data + 2, 8);
  assert_int_equal(find(file, "empty")->n_bytes, 0);
  assert_null(find(file, "c"));
  assert_null(find(file, "__metadata__"));
  yk_safetensors_close(file);
  yk_safetensors_close(NULL);
  temp_dir_remove(&dir);
  yk_strbuf_free(&image);
}

static void sub_byte_types_are_counted_in_bits(void **state)
{
  (void)state;
  yk_strbuf image = safetensors_image("{\"a\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[0,3]},"
                                      "\"b\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[3,6]}}",
                                      zeros, 6);
  yk_err err = YK_ERR_INIT;
  yk_safetensors *file;
  expect_ok("parse", yk_safetensors_parse("x", image.data, image.length, &file, &err), &err);
  assert_string_equal(yk_tensor_dtype_name(find(file, "b")->dtype), "F6_E2M3");
  yk_safetensors_close(file);
  yk_strbuf_free(&image);
}

static void every_type_has_its_size(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int bits;
  } types[] = {{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
               {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
               {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
               {"F32", 32}, {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64}};
  for (size_t i = 0; each_case(i, i < sizeof types / sizeof *types); i++) {
    char header[160];
    int n_bytes = types[i].bits * 4 / 8; /* in the largest number of dimensions */
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[1,1,1,2,1,1,1,2],\"data_offsets\":[0,%d]}}",
             types[i].name, n_bytes);
    yk_strbuf image = safetensors_image(header, zeros, (size_t)n_bytes);
    yk_err err = YK_ERR_INIT;
    yk_safetensors *file;
    expect_ok(types[i].name, yk_safetensors_parse("x", image.data, image.length, &file, &err), &err);
    assert_string_equal(yk_tensor_dtype_name(yk_safetensors_at(file, 0)->dtype), types[i].name);
    assert_int_equal(yk_safetensors_at(file, 0)->n_dims, YK_TENSOR_MAX_DIMS);
    yk_safetensors_close(file);
    yk_strbuf_free(&image);
  }
}

#define TENSOR(name, dtype, shape, offsets)                                                                            \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void bad_headers_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *header;
    size_t data_bytes;
    const char *words;
  } cases[] = {
      {"", 0, "x.safetensors"},
      {"[]", 0, "expected an object, found array"},
      {"{", 0, "x.safetensors|line 1"},
      {"{} x", 0, "x.safetensors|line 1"},
      {"{\"a\xff\":{}}", 0, "x.safetensors|line 1|byte 0xff"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__|\"k\"|expected a string, found integer"},
      {"{\"__metadata__\":3}", 0, "__metadata__|found integer"},
      {"{\"a\":7}", 0, "tensor a|expected an object, found integer"},
      {"{" TENSOR("a\\u0000b", "U8", "[2]", "[0,2]") "}", 2, "tensor a: |NUL"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("a", "U8", "[2]", "[2,4]") "}", 4, "duplicate"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2]") "}", 1,
       "x.safetensors: cut short: is 62 bytes, needs 63: download it again"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2]") "}", 3, "expected 2 bytes of tensor data, found 3"},
      {"{}", 1, "expected 0 bytes of tensor data, found 1"},
      {"{" TENSOR("a", "U8", "[2]", "[1,3]") "}", 3, "tensor a|offset 0, found 1 (hole)"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[3,5]") "}", 5, "tensor b|hole"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[1,3]") "}", 3,
       "tensor b|offset 2, found 1 (overlap)"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[0,2]") "}", 2, "overlap"},
      {"{" TENSOR("a", "U8", "[2]", "[2,0]") "}", 2, "tensor a"},
      {"{" TENSOR("a", "U8", "[2]", "[0,9223372036854775807]") "}", 2,
       "tensor a|expected 2 bytes|found 9223372036854775807"},
      {"{" TENSOR("a", "U8", "[2]", "[0,99999999999999999999]") "}", 2, "tensor a|data_offsets"},
      {"{" TENSOR("a", "U8", "[2]", "[-1,2]") "}", 2, "tensor a|data_offsets"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2,3]") "}", 2, "tensor a|data_offsets"},
      {"{" TENSOR("a", "U8", "[2]", "[0,2.0]") "}", 2, "tensor a|data_offsets"},
      {"{" TENSOR("a", "U8", "[2]", "\"x\"") "}", 2, "tensor a|data_offsets"},
      {"{" TENSOR("a", "F16", "[2]", "[0,2]") "}", 2, "tensor a|expected 4 bytes|found 2"},
      {"{" TENSOR("a", "U8", "[-2]", "[0,2]") "}", 2, "tensor a|shape[0]"},
      {"{" TENSOR("a", "U8", "[2.5]", "[0,2]") "}", 2, "tensor a|shape[0]"},
      {"{" TENSOR("a", "U8", "{}", "[0,2]") "}", 2, "tensor a|expected an array, found object"},
      {"{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,2]", "[0,2]") "}", 2, "tensor a|at most 8 dimensions, found 9"},
      {"{" TENSOR("a", "U8", "[4611686018427387904,4]", "[0,2]") "}", 2, "tensor a|whole number of bytes"},
      {"{" TENSOR("a", "F4", "[3]", "[0,1]") "}", 1, "tensor a|whole number of bytes"},
      {"{" TENSOR("a", "Q4", "[2]", "[0,2]") "}", 2, "tensor a|dtype \"Q4\" is unknown"},
      {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "tensor a|dtype"},
      {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,2]}}", 2, "tensor a|shape|found nothing"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2, "tensor a|data_offsets"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_strbuf image = safetensors_image(cases[i].header, zeros, cases[i].data_bytes);
    yk_err err = YK_ERR_INIT;
    yk_safetensors *file = NULL;
    yk_status status = yk_safetensors_parse("x.safetensors", image.data, image.length, &file, &err);
    expect_error(cases[i].header, YK_E_FORMAT, cases[i].words, status, &err);
    assert_null(file);
    yk_strbuf_free(&image);
  }
}

static void bad_lengths_are_refused(void **state)
{
  (void)state;
  static const struct {
    uint8_t bytes[12];
    size_t n_bytes;
    const char *words;
  } cases[] = {
      {{0}, 0, "cut short: is 0 bytes, needs 8"},
      {{2}, 7, "cut short: is 7 bytes, needs 8"},
      {{2}, 9, "cut short: is 9 bytes, needs 10: download it again"},
      {{0x01, 0xe1, 0xf5, 0x05}, 12, "header of 100000001 bytes, expected at most 100000000"},
      {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 12, "header of 18446744073709551615 bytes"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_err err = YK_ERR_INIT;
    yk_safetensors *file = NULL;
    yk_status status = yk_safetensors_parse("x.safetensors", cases[i].bytes, cases[i].n_bytes, &file, &err);
    expect_error("length", YK_E_FORMAT, cases[i].words, status, &err);
  }
}

/* Every shorter version of a good file is refused. */
static void truncated_files_are_refused(void **state)
{
  (void)state;
  yk_strbuf image = safetensors_image("{" TENSOR("a", "U8", "[2,3]", "[0,6]") "}", zeros, 6);
  temp_dir dir = temp_dir_make();
  char path[128];
  snprintf(path, sizeof path, "%s/x.safetensors", dir.path);
  for (size_t n_bytes = 0; n_bytes < image.length; n_bytes++) {
    write_file(&dir, "x.safetensors", image.data, n_bytes);
    yk_err err = YK_ERR_INIT;
    yk_safetensors *file = NULL;
    yk_status status = yk_safetensors_open(path, &file, &err);
    if (n_bytes >= 8) assert_memory_equal(err.message, "x.safetensors:", 14); /* once mapped, without its directory */
    expect_error("truncated", YK_E_FORMAT, "x.safetensors", status, &err);
  }
  temp_dir_remove(&dir);
  yk_strbuf_free(&image);
}

static void a_pointer_of_git_lfs_is_named(void **state)
{
  (void)state;
  static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  yk_err err = YK_ERR_INIT;
  yk_safetensors *file = NULL;
  yk_status status = yk_safetensors_parse("x.safetensors", pointer, sizeof pointer - 1, &file, &err);
  expect_error("pointer", YK_E_FORMAT, "x.safetensors: a Git LFS pointer instead of the weights: run git lfs pull",
               status, &err);
}

static void unreadable_files_are_named(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  yk_safetensors *file = NULL;
  expect_error("absent", YK_E_IO, "/nowhere/x.safetensors|No such file",
               yk_safetensors_open("/nowhere/x.safetensors", &file, &err), &err);
  expect_error("a directory", YK_E_IO, "/tmp|expected a regular file, found a directory",
               yk_safetensors_open("/tmp", &file, &err), &err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_file_gives_views),         cmocka_unit_test(sub_byte_types_are_counted_in_bits),
      cmocka_unit_test(every_type_has_its_size),       cmocka_unit_test(bad_headers_are_refused),
      cmocka_unit_test(bad_lengths_are_refused),       cmocka_unit_test(truncated_files_are_refused),
      cmocka_unit_test(a_pointer_of_git_lfs_is_named), cmocka_unit_test(unreadable_files_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

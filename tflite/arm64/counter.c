/* SPDX-License-Identifier: Apache-2.0
 *
 * A QEMU plugin that counts the executed AArch64 instructions by class. The guest cuts the count into
 * sections by calling getppid; every call writes one line "class=count class=count ..." for what ran since
 * the call before it to the file that COUNTER_OUTPUT names.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of QEMU's plugin interface, version 1 (QEMU 6.0 to 8.1). */
#define EXPORTED __attribute__((visibility("default")))
enum { INLINE_ADD_U64 = 0 };
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
typedef void (*translation_callback)(plugin_id, struct qemu_plugin_tb *);
typedef void (*syscall_callback)(plugin_id, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                 uint64_t, uint64_t, uint64_t, uint64_t);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translation_callback);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
extern void qemu_plugin_register_vcpu_syscall_cb(plugin_id, syscall_callback);
EXPORTED int qemu_plugin_version = 1;

enum { GETPPID = 173 };

enum class {
    DOT_PRODUCT,
    MATRIX_PRODUCT,
    FLOAT_MULTIPLY_ADD,
    HALF_MULTIPLY_ADD,
    INTEGER_MULTIPLY_ADD,
    OTHER_SIMD,
    SVE_SME,
    LOAD_STORE,
    BRANCH,
    OTHER,
    CLASSES
};

static const char *const names[CLASSES] = {
    "dot_product", "matrix_product", "float_multiply_add", "half_multiply_add", "integer_multiply_add",
    "other_simd",  "sve_sme",        "load_store",         "branch",            "other",
};

/* Instructions by the bits that are fixed in their encoding (Arm Architecture Reference Manual, C4). */
static const struct {
    uint32_t mask, bits;
    enum class class;
} patterns[] = {
    {0x9FE0FC00, 0x0E809400, DOT_PRODUCT},          /* SDOT, UDOT */
    {0xBFE0FC00, 0x0E809C00, DOT_PRODUCT},          /* USDOT */
    {0x9FC0F400, 0x0F80E000, DOT_PRODUCT},          /* SDOT, UDOT by element */
    {0xBF40F400, 0x0F00F000, DOT_PRODUCT},          /* USDOT, SUDOT by element */
    {0xDFE0F400, 0x4E80A400, MATRIX_PRODUCT},       /* SMMLA, UMMLA, USMMLA */
    {0xBF20FC00, 0x0E20CC00, FLOAT_MULTIPLY_ADD},   /* FMLA, FMLS */
    {0xBF80B400, 0x0F801000, FLOAT_MULTIPLY_ADD},   /* FMLA, FMLS by element */
    {0xFF000000, 0x1F000000, FLOAT_MULTIPLY_ADD},   /* FMADD and its kin, one value */
    {0xBF60FC00, 0x0E400C00, HALF_MULTIPLY_ADD},    /* FMLA, FMLS of 16 bits */
    {0xBFC0B400, 0x0F001000, HALF_MULTIPLY_ADD},    /* the same by element */
    {0x9F20DC00, 0x0E208000, INTEGER_MULTIPLY_ADD}, /* SMLAL, UMLAL, SMLSL, UMLSL */
    {0x9F20FC00, 0x0E20C000, INTEGER_MULTIPLY_ADD}, /* SMULL, UMULL */
    {0x9F20FC00, 0x0E209400, INTEGER_MULTIPLY_ADD}, /* MLA, MLS */
    {0x9F00B400, 0x0F002000, INTEGER_MULTIPLY_ADD}, /* SMLAL and its kin by element */
    {0x9F00F400, 0x0F00A000, INTEGER_MULTIPLY_ADD}, /* SMULL, UMULL by element */
    {0xBF00B400, 0x2F000000, INTEGER_MULTIPLY_ADD}, /* MLA, MLS by element */
    {0x0E000000, 0x0E000000, OTHER_SIMD},
    {0x0A000000, 0x08000000, LOAD_STORE},
    {0x1C000000, 0x14000000, BRANCH},
    {0x1E000000, 0x04000000, SVE_SME},
    {0x9E000000, 0x80000000, SVE_SME},
};

static uint64_t counts[CLASSES], written[CLASSES];
static FILE *output;

static enum class classify(uint32_t instruction)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if ((instruction & patterns[i].mask) == patterns[i].bits)
            return patterns[i].class;
    return OTHER;
}

/* QEMU hands over each straight piece of code once; from then on it adds the numbers itself. */
static void on_translation(plugin_id id, struct qemu_plugin_tb *block)
{
    uint64_t found[CLASSES] = {0};
    size_t length = qemu_plugin_tb_n_insns(block);

    (void)id;
    for (size_t i = 0; i < length; i++) {
        uint32_t instruction;
        memcpy(&instruction, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, i)), sizeof instruction);
        found[classify(instruction)]++;
    }
    for (int i = 0; i < CLASSES; i++)
        if (found[i])
            qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &counts[i], found[i]);
}

static void on_syscall(plugin_id id, unsigned int cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                       uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number != GETPPID)
        return;
    for (int i = 0; i < CLASSES; i++)
        fprintf(output, "%s=%" PRIu64 "%c", names[i], counts[i] - written[i], i + 1 < CLASSES ? ' ' : '\n');
    fflush(output);
    memcpy(written, counts, sizeof counts);
}

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    const char *path = getenv("COUNTER_OUTPUT");

    (void)info, (void)argc, (void)argv;
    output = path ? fopen(path, "w") : NULL;
    if (!output)
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    return 0;
}

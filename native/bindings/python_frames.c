#define Py_BUILD_CORE 1
#include "python_frames.h"

#include <frameobject.h>
#include <string.h>

#if PY_VERSION_HEX < 0x030A0000
#error "Python 3.10 is the oldest version supported"
#elif PY_VERSION_HEX < 0x030B0000
#define FRAMES_OF_310 1
#elif PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#define FRAMES_OF_311 1
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_code.h>
#endif
#endif

static inline uint64_t rotate(uint64_t word, unsigned bits) { return word << bits | word >> (64 - bits); }

/* One multiplication of 128 bits, folded; as hash_word() in writer/hash.h. */
static inline uint64_t mix(uint64_t left, uint64_t right) {
    unsigned __int128 product = (unsigned __int128)(left ^ 0x9e3779b97f4a7c15ULL) * (right ^ 0xd1b54a32d192ed03ULL);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A string's cached hash: of its content, or -1 while nobody has asked for it. */
static inline uint64_t cached_hash(PyObject *text) { return (uint64_t)((PyASCIIObject *)text)->hash; }

static inline uint64_t identity_of(PyCodeObject *code) {
    PyObject *table = code->co_linetable;
    const char *bytes = PyBytes_AS_STRING(table);
    size_t size = (size_t)PyBytes_GET_SIZE(table);
    uint64_t first = 0;
    uint64_t last = 0;
    if (size >= 8) {
        memcpy(&first, bytes, 8);
        memcpy(&last, bytes + size - 8, 8);
    } else {
        memcpy(&first, bytes, size);
    }
    uint64_t places = (uint64_t)code + rotate((uint64_t)table, 20) + rotate((uint64_t)code->co_name, 40);
    uint64_t names = cached_hash(code->co_name) + rotate(cached_hash(code->co_filename), 32);
    uint64_t lines = first + rotate(last, 32) + ((uint64_t)size << 32 | (uint32_t)code->co_firstlineno);
    return mix(places ^ names, lines + rotate((uint64_t)code->co_filename, 8));
}

uint64_t code_identity(PyCodeObject *code) { return identity_of(code); }

#if defined(FRAMES_OF_310)

PythonFrameCursor innermost_python_frame(void) {
    PyThreadState *thread = PyGILState_GetThisThreadState();
    return thread == NULL ? NULL : thread->frame;
}

size_t read_python_frames(PythonFrameCursor *cursor, struct RawPythonFrame *frames, size_t capacity) {
    size_t count = 0;
    const PyFrameObject *frame = *cursor;
    for (; frame != NULL && count < capacity; frame = frame->f_back) {
        frames[count].code = frame->f_code;
        frames[count].identity = identity_of(frame->f_code);
        /* f_lasti counts instructions of two bytes; -1 before the first. */
        frames[count].instruction_offset = frame->f_lasti < 0 ? 0 : (uint32_t)frame->f_lasti * 2;
        ++count;
    }
    *cursor = frame;
    return count;
}

PyCodeObject *code_of_frame(PyFrameObject *frame) { return frame->f_code; }

PyObject *first_local_of_frame(PyFrameObject *frame) {
    return frame->f_code->co_nlocals > 0 ? frame->f_localsplus[0] : NULL;
}

#elif defined(FRAMES_OF_311)

#if PY_VERSION_HEX >= 0x030D0000
static const _PyInterpreterFrame *current_frame(const PyThreadState *thread) { return thread->current_frame; }
#else
static const _PyInterpreterFrame *current_frame(const PyThreadState *thread) { return thread->cframe->current_frame; }
#endif

static PyCodeObject *code_of(const _PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* Frames that C code entered the interpreter through (3.12 and later) have no code of their own. */
static int belongs_to_interpreter(const _PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030C0000
    return frame->owner == FRAME_OWNED_BY_CSTACK;
#else
    (void)frame;
    return 0;
#endif
}

static long instruction_index(const _PyInterpreterFrame *frame, PyCodeObject *code) {
#if PY_VERSION_HEX >= 0x030D0000
    return (long)(frame->instr_ptr - _PyCode_CODE(code));
#else
    return (long)(frame->prev_instr - _PyCode_CODE(code));
#endif
}

PythonFrameCursor innermost_python_frame(void) {
    const PyThreadState *thread = PyGILState_GetThisThreadState();
    return thread == NULL ? NULL : current_frame(thread);
}

size_t read_python_frames(PythonFrameCursor *cursor, struct RawPythonFrame *frames, size_t capacity) {
    size_t count = 0;
    const _PyInterpreterFrame *frame = *cursor;
    for (; frame != NULL && count < capacity; frame = frame->previous) {
        if (belongs_to_interpreter(frame)) {
            continue;
        }
        PyCodeObject *code = code_of(frame);
        long index = instruction_index(frame, code);
        /* A frame that has not executed its first real instruction is not there yet for anybody. */
        if (frame->owner != FRAME_OWNED_BY_GENERATOR && index < code->_co_firsttraceable) {
            continue;
        }
        frames[count].code = code;
        frames[count].identity = identity_of(code);
        frames[count].instruction_offset = index < 0 ? 0 : (uint32_t)index * (uint32_t)sizeof(_Py_CODEUNIT);
        ++count;
    }
    *cursor = frame;
    return count;
}

PyCodeObject *code_of_frame(PyFrameObject *frame) { return code_of(frame->f_frame); }

PyObject *first_local_of_frame(PyFrameObject *frame) {
    return code_of(frame->f_frame)->co_nlocals > 0 ? frame->f_frame->localsplus[0] : NULL;
}

#else /* layouts not known: no stacks, and the doctor says so */

PythonFrameCursor innermost_python_frame(void) { return NULL; }

size_t read_python_frames(PythonFrameCursor *cursor, struct RawPythonFrame *frames, size_t capacity) {
    (void)cursor;
    (void)frames;
    (void)capacity;
    return 0;
}

PyCodeObject *code_of_frame(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code); /* the frame keeps it */
    return code;
}

PyObject *first_local_of_frame(PyFrameObject *frame) {
    (void)frame;
    return NULL;
}

#endif

PyObject *line_table_of_code(PyCodeObject *code) { return code->co_linetable; }

int python_frames_supported(void) {
#if defined(FRAMES_OF_310) || defined(FRAMES_OF_311)
    return 1;
#else
    return 0;
#endif
}

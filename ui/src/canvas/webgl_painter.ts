/** Draws rectangles with WebGL2. They stay on the device, so that panning costs no more than four numbers. Each
    corner has the whole rectangle: drivers in software take an instance of a call for a call of its own, and read textures slowly. */
import { SMALLEST_WITH_EDGE, transform, type Box, type Painter, type RectangleSet, type Surface } from './rectangles';

const VERTEX = `#version 300 es
in vec4 place;            // begin, end, low, high as shares of the box they were loaded for
in vec4 colour;
uniform vec2 horizontal;  // scale and offset into the box that is shown
uniform vec2 vertical;
uniform vec2 size;        // of the picture in pixels
uniform bool downward;
out vec4 shade;
out vec2 inside;          // distance in pixels from the rectangle's left and top
flat out vec2 extent;
void main() {
  vec2 x = (place.xy * horizontal.x + horizontal.y) * size.x;
  vec2 y = (place.zw * vertical.x + vertical.y) * size.y;
  if (!downward) y = size.y - y.yx;
  // What is short is still seen: at least one pixel each way.
  x.y = max(x.y, x.x + 1.0);
  y.y = max(y.y, y.x + 1.0);
  vec2 corner = vec2(float(gl_VertexID & 1), float((gl_VertexID >> 1) & 1));
  vec2 pixel = vec2(mix(x.x, x.y, corner.x), mix(y.x, y.y, corner.y));
  extent = vec2(x.y - x.x, y.y - y.x);
  inside = corner * extent;
  shade = colour;
  gl_Position = vec4(pixel.x / size.x * 2.0 - 1.0, 1.0 - pixel.y / size.y * 2.0, 0.0, 1.0);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 shade;
in vec2 inside;
flat in vec2 extent;
uniform vec3 ground;
out vec4 result;
void main() {
  bool edge = (extent.x >= ${SMALLEST_WITH_EDGE}.0 && inside.x > extent.x - 1.0) || (extent.y >= ${SMALLEST_WITH_EDGE}.0 && inside.y > extent.y - 1.0);
  result = vec4(edge ? mix(shade.rgb, ground, 0.65) : shade.rgb, shade.a);
}`;

/** Shares beyond this many boxes away are cut there: nobody pans that far before the next answer. */
const FARTHEST = 1000;

export class WebglPainter implements Painter {
  private readonly program: WebGLProgram;
  private readonly places: WebGLBuffer;
  private readonly colours: WebGLBuffer;
  private readonly uniforms: Record<'horizontal' | 'vertical' | 'size' | 'downward' | 'ground', WebGLUniformLocation | null>;
  private count = 0;
  private box: Box = { from: 0, to: 1, low: 0, high: 1 };

  private constructor(readonly canvas: HTMLCanvasElement, private readonly context: WebGL2RenderingContext) {
    const gl = context;
    this.program = link(gl);
    this.places = gl.createBuffer();
    this.colours = gl.createBuffer();
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    const uniform = (name: string): WebGLUniformLocation | null => gl.getUniformLocation(this.program, name);
    this.uniforms = {
      horizontal: uniform('horizontal'), vertical: uniform('vertical'), size: uniform('size'), downward: uniform('downward'),
      ground: uniform('ground'),
    };
    gl.useProgram(this.program);
    this.connect('place', this.places, gl.FLOAT, false);
    this.connect('colour', this.colours, gl.UNSIGNED_BYTE, true);
  }

  /** Null where there is no WebGL2. */
  static make(canvas: HTMLCanvasElement): WebglPainter | null {
    const context = canvas.getContext('webgl2', { alpha: true, antialias: false, preserveDrawingBuffer: true, premultipliedAlpha: true });
    return context ? new WebglPainter(canvas, context) : null;
  }

  load(rectangles: RectangleSet, box: Box): void {
    const gl = this.context;
    const { count, begin, end, low, high } = rectangles;
    const width = box.to - box.from || 1;
    const height = box.high - box.low || 1;
    // Relative to the box, in doubles: a float alone cannot tell nanoseconds of a long run apart.
    const places = new Float32Array(count * 16);
    const colours = new Uint32Array(count * 4);
    const shades = new Uint32Array(rectangles.colours.slice(0, count * 4).buffer);
    for (let number = 0; number < count; number += 1) {
      const first = number * 16;
      places[first] = Math.max((begin[number]! - box.from) / width, -FARTHEST);
      places[first + 1] = Math.min((end[number]! - box.from) / width, FARTHEST);
      places[first + 2] = Math.max((low[number]! - box.low) / height, -FARTHEST);
      places[first + 3] = Math.min((high[number]! - box.low) / height, FARTHEST);
      for (let corner = 1; corner < 4; corner += 1) places.copyWithin(first + corner * 4, first, first + 4);
      colours.fill(shades[number]!, number * 4, number * 4 + 4);
    }
    gl.bindBuffer(gl.ARRAY_BUFFER, this.places);
    gl.bufferData(gl.ARRAY_BUFFER, places, gl.STATIC_DRAW);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.colours);
    gl.bufferData(gl.ARRAY_BUFFER, colours, gl.STATIC_DRAW);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, cornersOf(count), gl.STATIC_DRAW);
    this.count = count;
    this.box = box;
  }

  draw(box: Box, surface: Surface, most: number): void {
    const gl = this.context;
    const { width, height, ratio } = surface;
    resize(this.canvas, width * ratio, height * ratio);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (this.count === 0) return;
    gl.uniform2fv(this.uniforms.horizontal, transform(this.box.from, this.box.to, box.from, box.to));
    gl.uniform2fv(this.uniforms.vertical, transform(this.box.low, this.box.high, box.low, box.high));
    gl.uniform2f(this.uniforms.size, this.canvas.width, this.canvas.height);
    gl.uniform1i(this.uniforms.downward, surface.isDownward ? 1 : 0);
    gl.uniform3f(this.uniforms.ground, surface.ground[0] / 255, surface.ground[1] / 255, surface.ground[2] / 255);
    gl.drawElements(gl.TRIANGLES, Math.min(this.count, most) * 6, gl.UNSIGNED_INT, 0);
  }

  dispose(): void {
    // Browsers allow few contexts at a time, and free them late.
    this.context.getExtension('WEBGL_lose_context')?.loseContext();
  }

  private connect(name: string, buffer: WebGLBuffer, type: number, isNormalized: boolean): void {
    const gl = this.context;
    const location = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, 4, type, isNormalized, 0, 0);
  }
}

/** Two triangles for each rectangle, of its four corners. */
function cornersOf(count: number): Uint32Array {
  const corners = new Uint32Array(count * 6);
  for (let number = 0; number < count; number += 1) {
    const first = number * 4;
    corners.set([first, first + 1, first + 2, first + 2, first + 1, first + 3], number * 6);
  }
  return corners;
}

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error('the WebGL context was lost');
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(gl.getProgramInfoLog(program) ?? 'the shaders do not link');
  }
  return program;
}

export function resize(canvas: HTMLCanvasElement, width: number, height: number): void {
  const columns = Math.max(Math.round(width), 1);
  const lines = Math.max(Math.round(height), 1);
  if (canvas.width !== columns) canvas.width = columns;
  if (canvas.height !== lines) canvas.height = lines;
}

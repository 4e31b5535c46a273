// Properties of documents and elements as browsers have them: a page may hide them behind names of its form fields.

const native = (kind, name) => {
  const { get, value } = Object.getOwnPropertyDescriptor(kind.prototype, name);
  return (it, ...given) => (get ?? value).call(it, ...given);
};

export const attribute = native(Element, "getAttribute");
export const boundsOf = native(Element, "getBoundingClientRect");
export const create = native(Document, "createElement");
export const listen = native(EventTarget, "addEventListener");
export const localName = native(Element, "localName");
export const rootOf = native(Document, "documentElement");
export const select = native(Document, "querySelectorAll");
export const viewOf = native(Document, "defaultView");

'use strict';
exports.one = function () { return { a() {}, b: () => 1 }; };
module.exports = { two() {}, three: async () => {}, *four() {} };
module.exports.five = exports.six = (x) => x;
var seven = function named() {}
class K { constructor() {} static s() {} #hidden() {} get g() { return 1 } field = () => 1 }
(function () { K.prototype.eight = function () {}; function folded() {} })();
const nine = (
  () => 1
);
export { seven };
try { function ten() {} } catch (e) { function eleven() {} } finally { function twelve() {} }

//! What is fitted, from flags and the schema's label.

use dpopt::data::tabular::Schema;

use super::TrainArgs;
use crate::error::CliError;
use crate::fit::Fit;
use crate::loss::LossName;

impl TrainArgs {
    /// The model, checked against the label and the flags that hang on it. Reads no record.
    pub(super) fn fit(&self, schema: &Schema) -> Result<Fit, CliError> {
        let label = schema.label();
        let loss = self.loss.unwrap_or_else(|| LossName::default_for(label));
        if loss == LossName::Softmax {
            // It can't be made for another label.
            Fit::check_label(loss, label)?;
        }
        let link = (self.link, self.how.columns());
        let classes = label.several().map(|several| several.values.len());
        let fit = Fit::new(loss, &self.network, link, classes)?;
        Fit::check_label(loss, label)?;
        self.population.check_fit(&fit)?;
        fit.check_ball(schema.row_norm())?;
        fit.check_projected(self.how.projects())?;
        Ok(fit)
    }
}

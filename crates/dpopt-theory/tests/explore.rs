use dpopt_nonconvex::*;
use dpopt_theory::*;
use dpopt_privacy::*;
use dpopt_oracle::Convexity;
#[test]
fn explore() {
    let mut lo=1e-6f64; let mut hi=64.0f64;
    let b=|e:f64| Budget{epsilon:Epsilon::new(e).unwrap(),delta:Delta::new(1e-10).unwrap()};
    for _ in 0..60 { let m=(lo*hi).sqrt(); if b(m).mu().unwrap().get()<2f64.sqrt() {lo=m} else {hi=m} }
    for norms in [NormQueries::Relative, NormQueries::Fixed] { for tau in [2.0f64,3.0,4.0] { for d in [20usize,1_000_000_000_000] {
        let mut before=0.0;
        for k in 0..11 { let n=if d==20 {1e4f64} else {1e8}*10f64.powf(0.5*k as f64);
            let kl=KlCondition::new(tau.powf(1.0/tau-1.0),tau/(tau-1.0)).unwrap();
            let mut e=Vec::new(); let mut why=String::new(); let mut bound=f64::NAN;let mut t=0;let mut steps=0;
            for seed in 0..16u64 { let start=0.5f64.powf(seed as f64/16.0);
                let facts=PublicFacts{records:n as u64,dim:d,adjacency:Adjacency::ReplaceOne,lipschitz:2.0,smoothness:tau-1.0,initial_gap:1.0/tau,row_norm:1.0,convexity:Convexity::Convex};
                let s=AdaptiveSettings::new().with_norms(norms).with_selection(AdaptiveSelection::Last);
                let mut plan=match AdaptiveGdPlan::new(&facts,&b(hi),s){Ok(p)=>p,Err(x)=>{why=x.to_string();break;}};
                bound=plan.risk_bound(&kl).unwrap_or(f64::INFINITY);
                plan.facts.dim=2;
                let mut est=PlaneEstimator::new(Power::new(tau).unwrap(),d as f64,start,2.0,n as u64,seed).unwrap();
                let out=plan.run(&mut est,&mut NoObserver).unwrap();
                e.push(dpopt_theory::Problem::value(est.problem(),&out.outcome.point)); why=format!("{:?}",out.outcome.stop);t=out.norms;steps=out.outcome.steps;
            }
            if e.is_empty(){eprintln!("{norms:?} tau {tau} d {d} n {n:e} {why}");continue;}
            let mean=e.iter().sum::<f64>()/e.len() as f64; let gm=(e.iter().map(|x|x.ln()).sum::<f64>()/e.len() as f64).exp();
            eprintln!("{norms:?} tau {tau} d {d:e} n {n:.2e} mean {mean:.3e} geo {gm:.3e} slope {:.3} bound {bound:.2e} {why} steps {steps} norms {t}",(gm.ln()-before)/10f64.sqrt().ln()); before=gm.ln();
        }
    }}}
}
